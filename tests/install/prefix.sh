#!/usr/bin/env bash
# prefix.sh CMAKE BUILD PREFIX: installs BUILD into an empty PREFIX.
set -euo pipefail
rm -rf "$3"
"$1" --install "$2" --prefix "$3" >/dev/null
