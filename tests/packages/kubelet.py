"""What a kubelet and a container runtime make of a pod in the network of the host, as far as the chart uses it.

The pod becomes an OCI bundle for runc. Not modelled: the seccomp profile RuntimeDefault, resources, DNS.
"""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

Secrets = dict[str, dict[str, str]]
NODE = {"spec.nodeName": "node-1", "status.hostIP": "127.0.0.1"}
# A kubelet does not verify the certificate of a probe.
ANY_CERTIFICATE = ssl.create_default_context()
ANY_CERTIFICATE.check_hostname = False
ANY_CERTIFICATE.verify_mode = ssl.CERT_NONE


def run(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def write_secret(volume: Path, content: dict[str, str], mode: int, group: int) -> None:
    """A Secret as a volume: files are links through ..data, which is replaced when the Secret changes."""
    version = f"..{len(list(volume.iterdir()))}"
    folder = volume / version
    folder.mkdir(mode=0o755)
    for key, text in content.items():
        file = folder / key
        file.write_text(text, encoding="utf-8")
        file.chmod(mode)
        os.chown(file, 0, group)
        if not (volume / key).is_symlink():
            (volume / key).symlink_to(f"..data/{key}")
    replacement = volume / "..data_tmp"
    replacement.symlink_to(version)
    replacement.rename(volume / "..data")


class Pod:
    """The pod of a DaemonSet on one node. Its volumes are in a folder; paths of the node are below `node`."""

    def __init__(self, daemon_set: dict[str, Any], secrets: Secrets, folder: Path, node: Path):
        self.spec = daemon_set["spec"]["template"]["spec"]
        (self.container,) = self.spec["containers"]
        self.security = self.spec["securityContext"] | self.container["securityContext"]
        self.folder = folder
        if not self.spec["hostNetwork"]:
            raise SystemExit("only a pod in the network of the host can be run here")
        if self.security["runAsNonRoot"] and self.security["runAsUser"] == 0:
            raise SystemExit("the kubelet would refuse user 0 with runAsNonRoot")
        self.secrets = secrets
        self.volumes = {volume["name"]: self._volume(volume, node) for volume in self.spec["volumes"]}

    def _volume(self, volume: dict[str, Any], node: Path) -> Path:
        path = self.folder / volume["name"]
        group = self.security["fsGroup"]
        if "emptyDir" in volume:
            path.mkdir()
            os.chown(path, 0, group)
            path.chmod(0o2777)
        elif "secret" in volume:
            path.mkdir()
            self.update_secret(volume["secret"], path)
        else:
            # DirectoryOrCreate; fsGroup does not apply to paths of the node.
            path = node / volume["hostPath"]["path"].lstrip("/")
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
        return path

    def update_secret(self, secret: dict[str, Any], path: Path) -> None:
        # fsGroup makes files readable for the group.
        mode = secret["defaultMode"] | 0o040
        write_secret(path, self.secrets[secret["secretName"]], mode, self.security["fsGroup"])

    def _environment(self) -> dict[str, str]:
        result: dict[str, str] = {}
        for each in self.container["env"]:
            source = each.get("valueFrom", {})
            if "fieldRef" in source:
                value = NODE[source["fieldRef"]["fieldPath"]]
            elif "secretKeyRef" in source:
                reference = source["secretKeyRef"]
                value = self.secrets[reference["name"]][reference["key"]]
            else:
                value = expand(each["value"], result)
            result[each["name"]] = value
        return result

    def configure(self, bundle: Path, entrypoint: list[str]) -> None:
        """Changes the configuration that umoci has made of the image into that of the container."""
        path = bundle / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        environment = self._environment()
        process = config["process"]
        process["terminal"] = False
        process["args"] = entrypoint + [expand(each, environment) for each in self.container["args"]]
        process["env"] += [f"{name}={value}" for name, value in environment.items()]
        process["user"] = {
            "uid": self.security["runAsUser"],
            "gid": self.security["runAsGroup"],
            "additionalGids": [self.security["fsGroup"]],
        }
        if self.security["capabilities"] != {"drop": ["ALL"]}:
            raise SystemExit(f"capabilities are {self.security['capabilities']}")
        process["capabilities"] = {}
        process["noNewPrivileges"] = not self.security["allowPrivilegeEscalation"]
        config["root"]["readonly"] = self.security["readOnlyRootFilesystem"]
        config["linux"]["namespaces"] = [kind for kind in config["linux"]["namespaces"] if kind["type"] != "network"]
        mounted = {mount["mountPath"] for mount in self.container["volumeMounts"]}
        config["mounts"] = [mount for mount in config["mounts"] if mount["destination"] not in mounted]
        for mount in self.container["volumeMounts"]:
            options = ["bind", "ro" if mount.get("readOnly") else "rw"]
            source = str(self.volumes[mount["name"]])
            config["mounts"].append(
                {"destination": mount["mountPath"], "source": source, "type": "bind", "options": options}
            )
        path.write_text(json.dumps(config), encoding="utf-8")

    def port(self, name: str) -> int:
        (port,) = (each["containerPort"] for each in self.container["ports"] if each["name"] == name)
        return port

    def probe(self, kind: str) -> bool:
        """One attempt of livenessProbe or readinessProbe."""
        probe = self.container[kind]
        if "tcpSocket" in probe:
            try:
                socket.create_connection(
                    ("127.0.0.1", self.port(probe["tcpSocket"]["port"])), probe["timeoutSeconds"]
                ).close()
            except OSError:
                return False
            return True
        get = probe["httpGet"]
        url = f"{get['scheme'].lower()}://127.0.0.1:{self.port(get['port'])}{get['path']}"
        try:
            with urllib.request.urlopen(url, timeout=probe["timeoutSeconds"], context=ANY_CERTIFICATE) as response:
                return 200 <= response.status < 400
        except (OSError, urllib.error.HTTPError):
            return False


def expand(text: str, environment: dict[str, str]) -> str:
    """Kubernetes replaces references to variables of the container, and leaves others as they are."""
    return re.sub(r"\$\(([A-Za-z0-9_]+)\)", lambda match: environment.get(match[1], match[0]), text)
