#!/bin/sh
# Installs or upgrades a package of azure-scheduled-events-exporter and restarts the service. It can run again.
#
#     install.sh FILE SHA256 [FLAGS]
#
# FILE is a .deb or a .rpm. FLAGS become the line ARGS=… in /etc/default; other lines, and without FLAGS all, stay.
# For the custom script extension (exporter.bicep, README.md) and for a shell on the VM. Needs root.
set -eu

if [ $# -lt 2 ] || [ $# -gt 3 ]; then
    echo "usage: install.sh FILE SHA256 [FLAGS]" >&2
    exit 64
fi
name=azure-scheduled-events-exporter
file=$(readlink -f "$1") sha256=$2 flags=${3-}

# The format of an environment file of systemd gives these characters a meaning.
case $flags in
    *[\"\\\`\$]*) echo "install.sh: FLAGS must not contain any of \" \\ \` \$" >&2; exit 64 ;;
esac

printf '%s  %s\n' "$sha256" "$file" | sha256sum --check --strict

# Before the package, which starts the service.
if [ -n "$flags" ]; then
    defaults=/etc/default/$name
    touch "$defaults"
    # Keeps owner and mode, as OTEL_* lines may be secret. A line that ends in \ continues. The last may lack its end.
    sed -i --follow-symlinks -e '/^ARGS=/{:line; /\\$/{$!{N; b line;};}; d;}' -e "\$a\\" "$defaults"
    printf 'ARGS="%s"\n' "$flags" >>"$defaults"
fi

case $file in
    *.deb)
        # A VM that has just started often installs other packages.
        DEBIAN_FRONTEND=noninteractive apt-get install -y --allow-downgrades \
            -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold "$file"
        ;;
    *.rpm) rpm --upgrade --oldpackage --replacepkgs "$file" ;;
    *) echo "install.sh: $file is neither a .deb nor a .rpm" >&2; exit 64 ;;
esac

systemctl enable "$name.service"
# The exporter does not start if FLAGS are invalid. The extension then fails, with the reason in its output.
if ! systemctl restart "$name.service"; then
    journalctl --unit "$name.service" --lines 5 --no-pager --output cat >&2
    exit 1
fi
