# The words of a runner written as a script; read it with `.`.  The lines are those of test.c.
#
#   try NAME COMMAND...         passes when the command does; its output is shown when it fails
#   try_not CODE NAME COMMAND.. passes when the command exits with CODE
#   try_within TOTAL QUIET NAME COMMAND...  as try, for one that may hang: see limited.py, which $python runs from $source
#   skip NAME REASON            a case that cannot run here
#   has_python                  is there a Python 3?
#   has_package NAME            can $python import it?  Found out once, where $HEADROOM_HAS names a folder for several runners
#   plain_blas                  before PyTorch runs: see there
#   finish                      prints the closing line and exits as it says
#
# $tmp is an empty folder that is removed at the end; $tmp/before holds what the case before printed.
passed=0 failed=0 skipped=0
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

try() { try_not 0 "$@"; }

try_not() {
    wanted_code=$1 case_name=$2
    shift 2
    [ ! -e "$tmp/output" ] || mv "$tmp/output" "$tmp/before"
    "$@" >"$tmp/output" 2>&1
    judge $? "$@"
}

judge() { # CODE COMMAND...: of case_name, with its output in $tmp/output
    code=$1
    shift
    if [ $code -eq "$wanted_code" ]; then
        passed=$((passed + 1))
        echo "ok      $case_name"
    else
        sed 's/^/    /' "$tmp/output"
        echo "    exit code $code, wanted $wanted_code: $*"
        failed=$((failed + 1))
        echo "FAILED  $case_name"
    fi
}

try_within() {
    wanted_code=0 limits="$1 $2" case_name=$3 from=$(date +%s)
    shift 3
    [ ! -e "$tmp/output" ] || mv "$tmp/output" "$tmp/before"
    "$python" "$source/tests/support/limited.py" $limits "$@" >"$tmp/output" 2>&1
    code=$? case_name="$case_name ($(($(date +%s) - from)) s)"
    case $code in 0 | 75) sed -n 's/^hung: /    &/p' "$tmp/output" ;; esac # said aloud whatever came of it
    if [ $code -eq 75 ]; then
        skip "$case_name" "it hung twice inside a BLAS library, with no frame of Headroom on its stacks"
    else
        judge $code "$@"
    fi
}

skip() {
    skipped=$((skipped + 1))
    echo "    skipped: $2"
    echo "skipped $1"
}

has_package() {
    known=${HEADROOM_HAS:-$tmp}/has-$1-${KERAS_BACKEND:-}
    if [ ! -e "$known" ]; then
        "$python" -c "import $1" >/dev/null 2>&1
        echo $? >"$known.$$" && mv "$known.$$" "$known"
    fi
    [ "$(cat "$known")" = 0 ]
}

has_python() { "${HEADROOM_PYTHON:-python3}" -c '' 2>/dev/null; }

# Without this, sgemm of the BLAS in PyTorch 2.15 for arm64 (NVPL 0.3) loops for ever on a Neoverse V1 whose SVE a virtual machine hides:
# its table of block sizes is all 0 there, probably since it goes by the processor's name.  1 stands for its kernels without SVE.
plain_blas() {
    if [ "$(uname -m)" = aarch64 ] && ! grep -qw sve /proc/cpuinfo 2>/dev/null; then
        export NVPL_BLAS_DEBUG_CPU_TYPE="${NVPL_BLAS_DEBUG_CPU_TYPE:-1}"
    fi
}

finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ $failed -eq 0 ]
    exit
}
