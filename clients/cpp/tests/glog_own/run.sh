#!/bin/sh
# glog's own tests, of its version 0.6 or 0.7, with glog and with the facade: a table of what passes. Their sources are not part of
# Logdrive; `cargo xtask wild glog` fetches Debian's.
#   run.sh GLOG_SOURCE CLIENT_SOURCE_DIR LIBRARY_DIR WORK_DIR
# Ends with 1 where a test passes with glog and not with the facade. Two things in the tests of 0.6 are no fault of either: the
# expected output of `logging` has wrong numbers of errors, which are mended here, and GCC makes no division of `1 / a`, so that
# `signalhandler` is built by clang, where it is.
set -eu
source=$(cd "$1" && pwd) client=$(cd "$2" && pwd) library=$(cd "$3" && pwd)
mkdir -p "$4/src/base" "$4/tmp" "$4/lib"
work=$(cd "$4" && pwd)
own=$client/tests/glog_own cxx=${CXX:-g++} failed=0
cd "$work"

# glog as it builds itself.
cmake -S "$source" -B glog -DWITH_GFLAGS=OFF -DWITH_GTEST=OFF -DWITH_UNWIND=OFF -DCMAKE_BUILD_TYPE=Debug > glog.log 2>&1
cmake --build glog >> glog.log 2>&1 || { tail -20 glog.log; echo "glog does not build"; exit 1; }
(cd glog && ctest) > glog-tests.log 2>&1 || true

# Its tests, without its headers.
cp "$source"/src/*.cc "$source"/src/*.h "$source"/src/*.err "$source"/src/*.out src/
cp "$source"/src/base/mutex.h src/base/ 2> /dev/null || true
sed -i 's/__EINTR__ \[__ENOENT_NUM__\]/__EINTR__ [__EINTR_NUM__]/; s/__ENXIO__ \[__ENOENT_NUM__\]/__ENXIO__ [__ENXIO_NUM__]/
        s/__ENOEXEC__ \[__ENOENT_NUM__\]/__ENOEXEC__ [__ENOEXEC_NUM__]/' src/*.err
# The facade sends no mail (MIGRATION.md).
sed -i '/^TEST(EmailLogging/,/^}/d' src/logging_unittest.cc
# As in 0.6, SetLogger() does not delete the logger before; 0.7 does.
sed -i '/SetLogger(GLOG_INFO, old_logger);/{n;/custom_logger_deleted/d}' src/logging_unittest.cc
ln -sf "$library/liblogdrive_c.so" lib/liblogdrive_c.so.0
ln -sf liblogdrive_c.so.0 lib/liblogdrive_c.so
flags="-std=c++17 -w -g -O0 -I$own -I$work/src -I$client/glog-include -I$client/include -DLOGDRIVE_GLOG_NO_GFLAGS"
export LD_LIBRARY_PATH="$work/lib" TEST_TMPDIR="$work/tmp"
$cxx $flags -O1 -c "$client/src/glog.cpp" -o facade.o
$cxx $flags -c "$own/inner.cpp" -o inner.o

# build NAME SOURCE MORE...
build() {
    name=$1 code=$2 && shift 2
    $cxx $flags -DLOGDRIVE_GLOG_LIBRARY -DTEST_SRC_DIR="\"$work\"" "src/$code" inner.o facade.o -o "$name" -Llib -llogdrive_c "$@" \
        -pthread > "$name.build" 2>&1
}
# row NAME COMMAND...: one line of the table.
row() {
    name=$1 && shift
    of_glog=$(sed -n "s/.*Test *#[0-9]*: $name [ .*]*\([A-Za-z]*\).*/\1/p" glog-tests.log | head -1)
    ours=Failed
    # Times between calls are looked at, which a busy machine stretches.
    for _ in 1 2 3; do
        if "$@" > "$name.log" 2>&1; then ours=Passed && break; fi
    done
    printf '%-30s %-10s %s\n' "$name" "${of_glog:-no test}" "$ours"
    if [ $ours = Failed ] && [ "$of_glog" = Passed ]; then failed=1 && tail -5 "$name.log"; fi
}
run() { build "$1" "$2" && timeout 60 "./$1"; }
# clean NAME EXTENSION DIRECTORY: of three runs, the files of the last one stay.
clean() {
    build "$1" "$1_unittest.cc" || return
    rm -rf clean && mkdir -p clean/test_subdir
    for _ in 1 2 3; do
        (cd clean && TEST_TMPDIR= GOOGLE_LOG_DIR="$work/clean/" "../$1") || return
        sleep 1.1
    done
    [ "$(find "clean/$3" -maxdepth 1 -name "$4*$2" | wc -l)" = 1 ]
}
# What signalhandler_unittest.sh looks for.
signals() {
    handler=$cxx
    if command -v clang++ > /dev/null; then handler=clang++; fi
    cxx=$handler build signalhandler signalhandler_unittest.cc || return
    [ "$(./signalhandler)" = OK ] || return
    (ulimit -c 0 && GOOGLE_LOG_DIR="$work/tmp" ./signalhandler segv) 2> out.segv
    for pattern in SIGSEGV 0xdead main 'Aborted at [0-9]'; do grep -q "$pattern" out.segv || return; done
    grep -q 'a message before segv' tmp/signalhandler.INFO || return
    ./signalhandler loop 2> out.loop &
    until grep -q looping out.loop; do sleep 0.1; done
    kill -TERM $! && wait $!
    for pattern in SIGTERM "by PID $!" "from PID $$" main 'Aborted at [0-9]'; do grep -q "$pattern" out.loop || return; done
    if [ "$handler" = clang++ ]; then
        (ulimit -c 0 && ./signalhandler die_in_thread) 2> out.thread
        for pattern in 'SIGFPE\|SIGSEGV' DieInThread "TID $(sed 's/^0x0x/0x/; s/x* .*//; q' out.thread)" 'Aborted at [0-9]'; do
            grep -q "$pattern" out.thread || return
        done
    fi
    (ulimit -c 0 && ./signalhandler dump_to_stdout) > out.stdout 2> /dev/null
    for pattern in SIGABRT main 'Aborted at [0-9]'; do grep -q "$pattern" out.stdout || return; done
}
# striplog NAME LEVEL: constant texts of levels that are left out are gone, and LOG(FATAL) ends the program all the same.
striplog() {
    code=striplog_unittest.cc
    if [ ! -e "src/$code" ]; then code=logging_striptest_main.cc; fi
    build "$1" "$code" -DGOOGLE_STRIP_LOG="$2" -O2 -DNDEBUG || return
    if "./$1"; then return 1; fi
    texts=$(strings -n 10 "$1" | grep -o 'TESTMESSAGE [A-Z]*' | sort -u | tr '\n' ' ')
    case $2 in
    0) for text in COND ERROR FATAL INFO WARNING; do echo "$texts" | grep -q "$text" || return; done ;;
    2) for text in ERROR FATAL; do echo "$texts" | grep -q "$text" || return; done && ! echo "$texts" | grep -q 'INFO\|WARNING' ;;
    *) [ -z "$texts" ] ;;
    esac
}

printf '%-30s %-10s %s\n' "glog's test" glog facade
row logging run logging logging_unittest.cc
if [ -e src/logging_custom_prefix_unittest.cc ]; then row logging_custom_prefix run logging_custom_prefix logging_custom_prefix_unittest.cc; fi
row stl_logging run stl_logging stl_logging_unittest.cc
row signalhandler signals
row striplog0 striplog striplog0 0
row striplog2 striplog striplog2 2
row striplog10 striplog striplog10 10
row cleanup_immediately clean cleanup_immediately .foobar . ''
row cleanup_with_absolute_prefix clean cleanup_with_absolute_prefix .barfoo . test_cleanup_
row cleanup_with_relative_prefix clean cleanup_with_relative_prefix .relativefoo test_subdir test_cleanup_
if echo '#include <gmock/gmock.h>' | $cxx -std=c++17 -fsyntax-only -xc++ - 2> /dev/null; then
    gmock() { build mock-log mock-log_unittest.cc -DHAVE_LIB_GMOCK -lgmock -lgtest && ./mock-log; }
    row mock-log gmock
else
    echo "mock-log                       left out: install libgmock-dev"
fi
# demangle, symbolize, stacktrace and utilities are tests of functions that glog does not export.
exit $failed
