#!/bin/sh
# Prints the address of IMDS on a Linux VM outside a virtual network, for --imds.url: DHCP option 245 of the last lease that
# has it. dhclient appends to its file, so the last lease there is the newest; several files are read in the order of names.
value=$(cat /run/systemd/netif/leases/* /var/lib/dhcp/dhclient*.leases /var/lib/dhclient/dhclient*.leases 2>/dev/null |
  sed -n 's/^OPTION_245=\(..\)\(..\)\(..\)\(..\)$/\1:\2:\3:\4/p; s/^ *option unknown-245 \([0-9a-f:]*\);$/\1/p' | tail -n 1)
if [ -z "$value" ]; then
  echo "classic-endpoint.sh: no lease has DHCP option 245" >&2
  exit 1
fi
# shellcheck disable=SC2046,SC2183  # four numbers
printf 'http://%d.%d.%d.%d\n' $(echo "0x$value" | sed 's/:/ 0x/g')
