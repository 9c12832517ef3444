#!/usr/bin/env python3
"""Writes ../../src/zones/windows_zones.txt: Windows zone names with their IANA zones and display names.

    pip download --no-deps tzlocal==5.4.5 && unzip tzlocal-*.whl        # CLDR's windowsZones.xml, territory 001
    npm pack timezones.json@1.7.2 && tar xzf timezones.json-*.tgz       # display names of Windows, MIT
    python3 make_windows_zones.py tzlocal/windows_tz.py package/timezones.json

Run by hand; the output is committed. tzlocal writes its table from
https://raw.githubusercontent.com/unicode-org/cldr/main/common/supplemental/windowsZones.xml.
"""
import json
import pathlib
import re
import sys

scope = {}
exec(pathlib.Path(sys.argv[1]).read_text(), scope)
zones = scope["win_tz"]
shown = {}
for row in json.loads(pathlib.Path(sys.argv[2]).read_text()):
    shown[row["value"]] = re.sub(r"^\(UTC[^)]*\)\s*", "", row["text"])
# That list has names of its own for some.
for own, windows in {
    "Japan Standard Time": "Tokyo Standard Time",
    "Moscow Standard Time": "Russian Standard Time",
    "Yekaterinburg Time": "Ekaterinburg Standard Time",
}.items():
    shown[windows] = shown[own]
shown["GMT Standard Time"] = "Dublin, Edinburgh, Lisbon, London"
shown["Pacific Standard Time"] = "Pacific Time (US & Canada)"
out = pathlib.Path(__file__).parents[2] / "src/zones/windows_zones.txt"
lines = [f"{name}\t{zone}\t{shown.get(name, '')}" for name, zone in sorted(zones.items())]
out.write_text("\n".join(lines) + "\n")
print(len(lines), "zones,", sum(1 for name in zones if shown.get(name)), "with a display name")
