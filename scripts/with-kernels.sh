#!/usr/bin/env bash
# with-kernels.sh VARIANT CMD...: build the kernels in another way and run Python with them. Variants: sanitized
# (AddressSanitizer and UndefinedBehaviorSanitizer) and portable (what processors other than x86-64 get).
# scripts/with-kernels.sh sanitized -m pytest tests/kernels
set -euo pipefail
cd "$(dirname "$0")/.."
variant=$1 python=$PWD/.venv/bin/python
shift
case $variant in
  sanitized) option=TAGWOOD_SANITIZE ;;
  portable) option=TAGWOOD_PORTABLE ;;
  *) echo "unknown variant $variant: expected sanitized or portable" >&2; exit 2 ;;
esac
place=$PWD/build/$variant
mkdir -p "$place"
cmake=$(dirname "$python")/cmake; [ -x "$cmake" ] || cmake=cmake
"$cmake" -S . -B "$place" "-D$option=ON" -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE="$python" > "$place.log"
"$cmake" --build "$place" --target _native --parallel 2 >> "$place.log"
rm -rf "$place/site"; mkdir -p "$place/site"
cp -r src/tagwood "$place/site/"
cp "$place"/_native*.so "$place/site/tagwood/_kernels/"
# The editable install would import the usual kernels.
cat > "$place/site/sitecustomize.py" <<'EOF'
import sys

sys.meta_path[:] = [one for one in sys.meta_path if "Redirecting" not in type(one).__name__]
EOF
export PYTHONPATH=$place/site
if [ "$variant" = sanitized ]; then
  export LD_PRELOAD="$(cc -print-file-name=libasan.so) $(cc -print-file-name=libubsan.so) $(cc -print-file-name=libstdc++.so)"
  export PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:abort_on_error=1
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
fi
exec "$python" "$@"
