#!/bin/sh
# What upstream's tests ask of curl, with busybox's wget: what a GET answers or, where there is a -w, its status alone.
only_status=
header=
while [ $# -gt 0 ]; do
  case "$1" in
    -w) only_status=yes; shift ;;
    -o) shift ;;
    --header) header=$2; shift ;;
    -*) ;;
    *) url=$1 ;;
  esac
  shift
done
if [ -z "$only_status" ]; then
  exec wget -q -O - "$url"
fi
wget -S -q -O /dev/null --no-check-certificate --header "$header" "$url" 2>&1 | sed -n 's/.*HTTP\/1\.1 \([0-9]*\).*/\1/p' | tail -n 1 | tr -d '\n'
