#!/bin/bash
# bench/run.sh [--quick] [--only NAME]... [--list]: runs the benchmarks of docs/performance.md, prints one
# table, and leaves JSON in $TANDEM_OUT (build/bench) and what the processes said in NAME.log beside it.
#
#   --quick       smaller and fewer runs: a look, not a measurement
#   --only NAME   only this benchmark; may be given several times
#   --list        their names
#   --strict      exit 3 when a row misses its threshold (else such rows say BELOW, and the exit is 0)
#
# Programs are taken from $TANDEM_BIN (build/release/bin), input from $TANDEM_DATA (build/data); `./dev bench`
# builds and fetches both.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
export TANDEM_BIN=${TANDEM_BIN:-$PWD/build/release/bin}
export TANDEM_DATA=${TANDEM_DATA:-$PWD/build/data}
export TANDEM_OUT=${TANDEM_OUT:-$PWD/build/bench}

all=(leases metg latency throughput results hybrid merging overlap puller data accept)
# Written for Google Benchmark: of one part each, without thresholds; their tables are in the log.
micro=(kernels store)
usage() { sed -n '2,/^set/p' bench/run.sh | sed -n 's/^# \{0,1\}//p'; }

only=() flags=() strict= quick=
while [ $# -gt 0 ]; do
  case "$1" in
    --quick) flags+=(--quick); quick=1 ;;
    --only) [ $# -gt 1 ] || { usage >&2; exit 2; }; only+=("$2"); shift ;;
    --list) printf '%s\n' "${all[@]}" "${micro[@]}"; exit ;;
    --strict) strict=1 ;;
    -h | --help) usage; exit ;;
    *) echo "bench: there is no option '$1'; bench/run.sh --help lists them" >&2; exit 2 ;;
  esac
  shift
done
[ ${#only[@]} -gt 0 ] || only=("${all[@]}" "${micro[@]}")
for name in "${only[@]}"; do
  [[ " ${all[*]} ${micro[*]} " == *" $name "* ]] ||
    { echo "bench: there is no benchmark '$name'; there are: ${all[*]} ${micro[*]}" >&2; exit 2; }
done

mkdir -p "$TANDEM_OUT"
printf '%s cores; load before: %s\n\n' "$(nproc)" "$(cut -d' ' -f1-3 /proc/loadavg)"
printf '%-52s %11s %-6s %12s %-5s  %s\n' measure value unit threshold "" notes
below=0 failed=0
for name in "${only[@]}"; do
  code=0
  if [[ " ${micro[*]} " == *" $name "* ]]; then
    printf '%s: ' "$name"
    TANDEM_BENCH_DIR=$TANDEM_OUT "$TANDEM_BIN/${name}_bench" --benchmark_out="$TANDEM_OUT/$name.json" \
      --benchmark_out_format=json ${quick:+--benchmark_min_time=0.05} >"$TANDEM_OUT/$name.log" 2>&1 || code=$?
    [ $code -ne 0 ] || echo "$(grep -cE ' [num]?s +[0-9.]+ [num]?s ' "$TANDEM_OUT/$name.log") figures in $TANDEM_OUT/$name.log"
  else
    "$TANDEM_BIN/${name}_bench" "${flags[@]}" 2>"$TANDEM_OUT/$name.log" || code=$?
  fi
  case $code in
    0) ;;
    3) below=$((below + 1)) ;;
    *) failed=1
       echo "$name: failed (exit $code); the end of $TANDEM_OUT/$name.log:"
       tail -n 5 "$TANDEM_OUT/$name.log" ;;
  esac
done

printf '\nJSON and logs: %s\n' "$TANDEM_OUT"
[ $failed -eq 0 ] || exit 1
if [ $below -gt 0 ]; then
  echo "Some rows are BELOW their thresholds; docs/performance.md says what those mean on other machines."
  [ -z "$strict" ] || exit 3
fi
