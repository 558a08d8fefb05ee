#!/bin/sh
# Whole programs that were written for glog, unchanged, with glog and with the facade: built twice, with a compiler in front of which
# the facade's headers lie the second time, and their own tests run. A table of what passes, of times and of log lines.
#   wild.sh PROGRAM PACKAGE SOURCE CLIENT_SOURCE_DIR LIBRARY_DIR WORK_DIR
# PROGRAM is glog (its own tests), librime or ceres. An empty SOURCE has the source of Debian's PACKAGE fetched, with lists of its own.
# Ends with 77 where something is missing, with 1 where fewer tests pass with the facade than with glog. JOBS says how many compilers
# run (1).
set -eu
program=$1 package=$2 source=$3 client=$(cd "$4" && pwd) library=$(cd "$5" && pwd)
leave_out() { echo "$program: left out: $1" && exit 77; }
mkdir -p "$6" && work=$(cd "$6" && pwd)

# Sources of the distribution that packages come from.
fetch() {
    command -v apt-get > /dev/null || leave_out "no apt-get; give the source with --source"
    apt=$work/apt keys=/usr/share/keyrings/debian-archive-keyring.gpg
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$work/source"
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' | grep debian | sort -u \
        | sed "s#^#deb-src $([ ! -e $keys ] || echo "[signed-by=$keys]") #" > "$apt/sources.list"
    set -- -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache"
    { apt-get "$@" update && cd "$work/source" && apt-get "$@" source "$package"; } > "$apt/log" 2>&1 \
        || leave_out "the source of $package cannot be had: $(grep '^E:' "$apt/log" | head -1)"
    find "$work/source" -mindepth 1 -maxdepth 1 -type d | head -1
}
if [ -z "$source" ]; then
    source=$(fetch) || { echo "$source" && exit 77; }
fi
[ -d "$source" ] || leave_out "no source in $source"
source=$(cd "$source" && pwd)
if [ "$program" = glog ]; then exec sh "$client/tests/glog_own/run.sh" "$source" "$client" "$library" "$work"; fi

has_header() { echo "#include <$1>" | ${CXX:-g++} -std=c++17 -fsyntax-only -xc++ - 2> /dev/null; }
case $program in
librime)
    packages="libboost-filesystem-dev libboost-regex-dev libboost-system-dev libboost-dev libgoogle-glog-dev libgflags-dev libleveldb-dev libmarisa-dev libopencc-dev libyaml-cpp-dev libgtest-dev"
    headers="boost/signals2.hpp boost/filesystem.hpp glog/logging.h leveldb/db.h marisa.h opencc/opencc.h yaml-cpp/yaml.h gtest/gtest.h"
    options="-DBUILD_TEST=ON -DBUILD_DATA=OFF"
    # So many tests, as gtest counts them.
    tests() { (cd "$1/test" && ./rime_test); }
    ;;
ceres)
    packages="libeigen3-dev libgoogle-glog-dev libgflags-dev"
    headers="eigen3/Eigen/Core glog/logging.h gflags/gflags.h"
    # Its own parts only, as small as it can be built; of its tests those that log or check.
    options="-DMINIGLOG=OFF -DSUITESPARSE=OFF -DCXSPARSE=OFF -DLAPACK=OFF -DSCHUR_SPECIALIZATIONS=OFF -DBUILD_EXAMPLES=OFF -DBUILD_BENCHMARKS=OFF"
    # Some fail with both, for want of their data.
    tests() { (cd "$1" && failed=0 && for test in bin/*_test; do "./$test" || failed=1; done && exit $failed); }
    ;;
*) leave_out "there are glog, librime and ceres" ;;
esac
for header in $headers; do has_header "$header" || leave_out "$header is missing: apt-get install $packages"; done

# The compilers. A program may ask for an older C++ than the facade's, which both get.
mkdir -p "$work/bin" "$work/lib"
printf '#!/bin/sh\nexec %s "$@" -std=c++17 -w\n' "${CXX:-g++}" > "$work/bin/glog"
ln -sf "$library/liblogdrive_c.so" "$work/lib/liblogdrive_c.so.0"
ln -sf liblogdrive_c.so.0 "$work/lib/liblogdrive_c.so"
facade="-I$client/glog-include -I$client/include -DLOGDRIVE_GLOG_LIBRARY -DLOGDRIVE_GLOG_GFLAGS"
${CXX:-g++} -std=c++17 -O2 -fPIC -fvisibility=hidden $facade -c "$client/src/glog.cpp" -o "$work/facade.o"
rm -f "$work/lib/liblogdrive_glog.a" && ar rcs "$work/lib/liblogdrive_glog.a" "$work/facade.o"
printf '#!/bin/sh\nexec %s %s "$@" -std=c++17 -w -L%s -llogdrive_glog -llogdrive_c -lgflags\n' "${CXX:-g++}" "$facade" "$work/lib" > "$work/bin/facade"
chmod +x "$work/bin/glog" "$work/bin/facade"
export LD_LIBRARY_PATH="$work/lib:${LD_LIBRARY_PATH:-}"

seconds() { date +%s; }
failed=0
for kind in glog facade; do
    begin=$(seconds)
    build=$work/$kind
    { cmake -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_CXX_FLAGS_DEBUG=-O0" "-DCMAKE_CXX_COMPILER=$work/bin/$kind" $options \
        && cmake --build "$build" -j "${JOBS:-1}"; } > "$build.log" 2>&1 || { tail -20 "$build.log"; echo "$program: does not build with $kind"; exit 1; }
    built=$(seconds)
    rm -rf "$build.logs" && mkdir "$build.logs"
    result=passed
    GLOG_log_dir="$build.logs" tests "$build" > "$build.tests" 2>&1 || result=failed
    passed=$(grep -c '^\[       OK \]' "$build.tests" || true)
    lines=$(cat "$build.logs"/*.log.INFO.* 2> /dev/null | grep -c '^[IWEF][0-9]' || true)
    printf '%-8s %-7s tests %s (%s ok), built in %s s, run in %s s, %s lines in the log of INFO\n' "$program" "$kind" "$result" "$passed" \
        $((built - begin)) $(($(seconds) - built)) "$lines"
    if [ $kind = facade ] && { [ "$passed" -lt "$of_glog" ] || [ "$lines" -lt "$lines_of_glog" ]; }; then
        failed=1 && grep '^\[  FAILED  \]' "$build.tests" | tail -20
    fi
    of_glog=$passed lines_of_glog=$lines
done
# The facade took nothing from glog.
for built in $(find "$work/facade" -name '*.so' -o -name '*_test' -type f); do
    if nm -D --undefined-only "$built" 2> /dev/null | c++filt | grep -E 'google::(LogMessage|InitGoogleLogging|LogSink)'; then
        echo "$built calls the real glog" && failed=1
    fi
done
exit $failed
