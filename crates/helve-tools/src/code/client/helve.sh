#!/usr/bin/env bash
# Calls another tool from inside the box, through Helve's whole pipeline: helve TOOL [JSON]
# Prints the answer as one line of JSON; ends with 1 where the call failed.
exec 3<>/dev/tcp/127.0.0.1/3129 || exit 1
arguments=${2:-}
printf '{"tool":"%s","arguments":%s}\n' "$1" "${arguments:-{\}}" >&3
IFS= read -r answer <&3
printf '%s\n' "$answer"
[[ $answer == '{"ok":true'* ]]
