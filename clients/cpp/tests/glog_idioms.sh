#!/bin/sh
# Runs glog_idioms.cpp with the real glog and with the facade, and compares what they print, times and threads aside.
# glog_idioms.sh REAL FACADE
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for kind in real facade; do
    GLOG_logdrive_run_dir=$work "$1" 2> "$work/said" || { cat "$work/said"; echo "$kind: it fails"; exit 1; }
    sed 's/^\([IWEF]\)[0-9]* [0-9:.]* *[0-9]* /\1 /' "$work/said" > "$work/$kind"
    shift
done
diff "$work/real" "$work/facade"
[ "$(wc -l < "$work/facade")" -gt 60 ]
echo "$(wc -l < "$work/facade") lines, the same"
