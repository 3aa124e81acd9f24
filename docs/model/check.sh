#!/usr/bin/env bash
# Goes through the model of the delivery protocol with spin, and through each of its broken variants. Fails unless the sound
# one holds everywhere and every broken one is found out. Needs spin and gcc (Debian: apt-get install spin gcc).
set -euo pipefail

for tool in spin gcc; do
  if ! command -v "$tool" > /dev/null; then
    echo "$tool is missing: install it (Debian: apt-get install spin gcc)." >&2
    exit 2
  fi
done

model=$(cd "$(dirname "$0")" && pwd)/delivery.pml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# verify NAME EXPECTED SPIN-FLAGS GCC-FLAGS PAN-FLAGS; EXPECTED: holds, broken
verify() {
  local name=$1 expected=$2 found
  mkdir "$work/$name"
  cd "$work/$name"
  # shellcheck disable=SC2086
  spin -a $3 "$model" > spin.out
  # shellcheck disable=SC2086
  gcc -O2 -w -DMEMLIM=9000 -DCOLLAPSE $4 -o pan pan.c
  # shellcheck disable=SC2086
  ./pan -m400000 $5 > pan.out
  found=$(grep -q 'errors: 0' pan.out && ! grep -q 'search was not completed\|max search depth too small' pan.out \
    && echo holds || echo broken)
  printf '%-28s %-7s %s\n' "$name" "$found" "$(grep -o '[0-9.e+]* states, stored' pan.out | head -1)"
  grep -h '^pan:1: ' pan.out | sed 's/^pan:1: /    /' || true
  if [ "$found" != "$expected" ]; then failed=1; fi
}

verify two-workers holds '-DNO_PERSON' '-DSAFETY' ''
verify one-worker holds '-DONE_WORKER' '-DSAFETY' ''
verify one-worker-approval holds '-DONE_WORKER -DAPPROVAL' '-DSAFETY' ''
verify every-delivery-ends holds '-DONE_WORKER -DLIVE' '-DNFAIR=3' '-a -f -N ends'

for guard in CHECK_IN_LOCK_SNAPSHOT LOCKS_IN_ANOTHER_ORDER SOURCE_NOT_LOCKED RELEASE_WITHOUT_FENCE \
  SOURCES_NOT_ASKED_AGAIN RECONCILING_CLAIMED_AGAIN; do
  verify "$guard" broken "-D$guard" '-DSAFETY' ''
done
verify SETTLE_WITHOUT_FENCE broken '-DONE_WORKER -DSETTLE_WITHOUT_FENCE' '-DSAFETY' ''
verify APPROVAL_NOT_BOUND broken '-DONE_WORKER -DAPPROVAL -DAPPROVAL_NOT_BOUND' '-DSAFETY' ''

exit "$failed"
