#!/usr/bin/env bash
# Collects programs and the shared libraries they need: scripts/stage.sh FOLDER PROGRAM...
#
# FOLDER/bin and FOLDER/lib, stripped. Libraries of the C and C++ runtime's base (libc, libm, the
# loader) are the machine's own. Fails above 60 MiB.
set -euo pipefail
folder=$1
shift
rm -rf "$folder"
mkdir -p "$folder/bin" "$folder/lib"
for program in "$@"; do
  strip -o "$folder/bin/$(basename "$program")" "$program"
  ldd "$program" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' |
    while read -r library; do
      case $(basename "$library") in
        libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so*) ;;
        *) strip -o "$folder/lib/$(basename "$library")" "$(readlink -f "$library")" ;;
      esac
    done
done
bytes=$(du -sb "$folder" | cut -f 1)
echo "$folder: $((bytes / 1024)) KiB, $(ls "$folder/bin" | wc -l) programs"
((bytes < 60 * 1024 * 1024)) || { echo "above 60 MiB" >&2; exit 1; }
