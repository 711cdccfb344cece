"""Checks that the Azure CLI accepts each `az` command of the documents: commands.py AZ. Sends nothing, and needs no login.

Commands of extensions, which are not part of the CLI, are only counted.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# Groups of extensions: https://learn.microsoft.com/cli/azure/azure-cli-extensions-list
EXTENSIONS = {"graph", "maintenance"}
# How a command ends whose arguments are accepted, without a login and without a network for the Bicep compiler
ACCEPTED = ("Please run 'az login'", "retrieve the latest Bicep version")


def commands(text: str) -> list[list[str]]:
    """The commands after `$ az` in blocks, and those with options in code spans, split as a shell does."""
    found = re.findall(r"`az ([^`\n]+ -[^`\n]+)`", text)
    found += re.findall(r"(?ms)^ *\$ az (.*?)(?=^ *(?:\$ |```))", text)
    # A substitution is one word.
    return [shlex.split(re.sub(r"\$\([^)]*\)", "VALUE", command.replace("\\\n", " "))) for command in found]


def main() -> int:
    [az] = sys.argv[1:]
    checked = failed = skipped = 0
    # Nothing listens there.
    environment = os.environ | {"HTTPS_PROXY": "http://127.0.0.1:9", "AZURE_CORE_COLLECT_TELEMETRY": "no"}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "packaging").symlink_to(ROOT / "packaging")
        # Read by a command; the content is a block of the page.
        page = (ROOT / "packaging" / "azure" / "README.md").read_text()
        (block,) = re.findall(r'```json\n(\{\n *"fileUris".*?)```', page, re.DOTALL)
        Path(folder, "settings.json").write_text(block)
        environment["AZURE_CONFIG_DIR"] = folder
        pages = [path for name in ("docs", "packaging") for path in sorted((ROOT / name).rglob("*.md"))]
        for path in [ROOT / "README.md", *pages]:
            for words in commands(path.read_text()):
                if words[0] in EXTENSIONS:
                    skipped += 1
                    continue
                checked += 1
                command = [az, *words]
                done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
                if not any(reason in done.stderr for reason in ACCEPTED):
                    failed += 1
                    print(f"{path.relative_to(ROOT)}: az {shlex.join(words)}\n{done.stderr}", file=sys.stderr)
    print(f"{checked} commands, {skipped} of extensions not checked")
    # Documents without a command would pass as well.
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
