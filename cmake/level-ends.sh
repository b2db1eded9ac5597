#!/bin/sh
# level-ends OBJCOPY OBJDUMP OBJECT LEVEL: names where the code of an object begins and ends, hri_level_LEVEL and hri_level_LEVEL_end.
set -eu
bytes=$("$2" -h -j .text "$3" | awk '$2 == ".text" { print $3 }')
exec "$1" --add-symbol "hri_level_$4=.text:0,global" --add-symbol "hri_level_$4_end=.text:0x$bytes,global" "$3"
