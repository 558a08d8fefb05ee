#!/bin/sh
# Programs that were written for glog, unchanged: examples of Ceres Solver, from Debian's source package, built with the
# facade in front of glog, run, and their logs shown and looked at. The library libceres that they link logs through the
# real glog; both are in one process.
#
#     clients/cpp/examples/ceres.sh [SOURCE_DIR]
#
# SOURCE_DIR is what `apt-get source ceres-solver` unpacks; the environment variable CERES_SOURCE says it as well. Needs
# libceres-dev, libeigen3-dev, libgoogle-glog-dev, libgflags-dev, and target/release/liblogdrive_c.so (`cargo build
# --release --package logdrive-capi`), or LOGDRIVE_LIBRARY_DIR for where that lies. Ends with 77 where the source is
# missing. Takes some minutes: the examples are templates of Eigen's.
set -eu
client=$(cd "$(dirname "$0")/.." && pwd)
library=${LOGDRIVE_LIBRARY_DIR:-$client/../../target/release}
source=${1:-${CERES_SOURCE:-}}
if [ -z "$source" ] || [ ! -d "$source/examples" ]; then
    echo "left out: no source of Ceres Solver; get it: apt-get source ceres-solver (with a deb-src line), then $0 DIRECTORY"
    exit 77
fi
if ! pkg-config --exists libglog gflags || ! [ -e /usr/include/ceres/ceres.h ]; then
    echo "left out: apt-get install libceres-dev libgoogle-glog-dev libgflags-dev libeigen3-dev"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/lib" "$work/log"
ln -s "$(cd "$library" && pwd)/liblogdrive_c.so" "$work/lib/liblogdrive_c.so"
ln -s liblogdrive_c.so "$work/lib/liblogdrive_c.so.0"
export LD_LIBRARY_PATH="$work/lib" GLOG_log_dir="$work/log" GLOG_logdrive_run_dir="$work/run"

# build NAME SOURCES...: -isystem for what is not ours, so that the facade's directory stands before glog's.
build() {
    name=$1 && shift
    (cd "$source/examples" && ${CXX:-g++} -std=c++17 -O1 -w -DLOGDRIVE_GLOG_GFLAGS -I"$client/glog-include" -I"$client/include" \
        -isystem /usr/include/eigen3 "$@" -o "$work/$name" -L"$work/lib" -llogdrive_c -lceres -lgflags -pthread)
    # The program itself takes nothing from the real library.
    if nm -D --undefined-only "$work/$name" | c++filt | grep -E 'google::(LogMessage|InitGoogleLogging|LogSink)'; then
        echo "$name: calls the real glog"
        exit 1
    fi
}
# expect NAME FILE PATTERN: the log of the facade has such a line.
expect() {
    log=$(readlink -f "$work/log/$1.$2")
    grep -qE "^[IWEF][0-9]{8} [0-9:]{8}\.[0-9]{6} +[0-9]+ $3" "$log" || { echo "$1.$2 has no line of $3:"; cat "$log"; exit 1; }
    echo "--- $1.$2"
    head -20 "$log"
}

build bundle_adjuster bundle_adjuster.cc bal_problem.cc
(cd "$work" && ./bundle_adjuster --input="$source/data/problem-16-22106-pre.txt" --num_iterations=2 --num_threads=2 \
    --inner_iterations=true --blocks_for_inner_iterations=cameras --v=2 > bundle_adjuster.out)
expect bundle_adjuster INFO 'bundle_adjuster.cc:[0-9]+\] Camera blocks for inner iterations'
expect bundle_adjuster INFO 'bal_problem.cc:[0-9]+\] Header: 16 22106 83718'
build libmv_homography libmv_homography.cc
(cd "$work" && ./libmv_homography > homography.out 2>&1)
expect libmv_homography INFO 'libmv_homography.cc:[0-9]+\] Summary:'
(cd "$work" && ./bundle_adjuster > usage.out 2>&1) && { echo "no input is no error"; exit 1; }
expect bundle_adjuster ERROR 'bundle_adjuster.cc:[0-9]+\] Usage: bundle_adjuster --input=bal_problem'
build curve_fitting curve_fitting.cc
(cd "$work" && ./curve_fitting > curve.out) && tail -2 "$work/curve.out"
echo "Ceres Solver's examples log through the facade"
