#!/usr/bin/env bash
# asan.sh CMD...: build the kernels with AddressSanitizer and UndefinedBehaviorSanitizer and run Python with them:
# scripts/asan.sh -m pytest tests/kernels
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python place=$PWD/build/asan
cmake=$(dirname "$python")/cmake; [ -x "$cmake" ] || cmake=cmake
"$cmake" -S . -B "$place" -DTAGWOOD_SANITIZE=ON -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE="$python" > "$place.log"
"$cmake" --build "$place" --target _native --parallel 2 >> "$place.log"
rm -rf "$place/site"; mkdir -p "$place/site"
cp -r src/tagwood "$place/site/"
cp "$place"/_native*.so "$place/site/tagwood/_kernels/"
# The editable install would import the usual kernels.
cat > "$place/site/sitecustomize.py" <<'EOF'
import sys

sys.meta_path[:] = [one for one in sys.meta_path if "Redirecting" not in type(one).__name__]
EOF
export PYTHONPATH=$place/site PYTHONMALLOC=malloc
export LD_PRELOAD="$(cc -print-file-name=libasan.so) $(cc -print-file-name=libubsan.so) $(cc -print-file-name=libstdc++.so)"
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:abort_on_error=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
exec "$python" "$@"
