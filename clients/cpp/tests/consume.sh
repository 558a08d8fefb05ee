#!/bin/sh
# How programs get at the library: installed with find_package and with pkg-config, as a part of another build, by hand, from
# packages, and from an archive of a release without cargo.
# consume.sh CLIENT_SOURCE_DIR BUILD_DIR CXX
set -eu
source=$1 build=$2 cxx=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/main.cpp" <<'END'
#include <logdrive/logdrive.hpp>
int main(int, char **argv) {
    logdrive::Options options("consume");
    auto logger = logdrive::start(options.set("run_dir", argv[2]).set("use_env", "no").file(argv[1]).with("layout", "pattern {message}"));
    LOGDRIVE_INFO("consumed {}", 1);
    return logger.code();
}
END
cat > "$work/glog.cpp" <<'END'
#include <glog/logging.h>
int main(int, char **argv) {
    FLAGS_log_prefix = false;
    FLAGS_logdrive_run_dir = argv[2];
    FLAGS_timestamp_in_logfile_name = false;
    google::SetLogDestination(google::INFO, argv[1]);
    google::InitGoogleLogging(argv[0]);
    LOG(INFO) << "consumed " << 1;
}
END
try() {
    rm -f "$work/out.log"
    "$1" "$work/out.log" "$work/run"
    grep -qx 'consumed 1' "$work/out.log" || { echo "$2: nothing was logged"; exit 1; }
    echo "$2: ok"
}

cmake --install "$build" --prefix "$work/prefix" > /dev/null
libdir=$(dirname "$(find "$work/prefix" -name logdrive.pc)")/..
export LD_LIBRARY_PATH="$libdir"

mkdir "$work/found"
cat > "$work/found/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.16)
project(found CXX)
find_package(logdrive 0.1 REQUIRED)
foreach(target logdrive logdrive_static)
  add_executable(${target}_program ../main.cpp)
  target_link_libraries(${target}_program logdrive::${target})
endforeach()
add_executable(glog_program ../glog.cpp)
target_link_libraries(glog_program logdrive::glog)
find_package(glog 0.4 REQUIRED)
add_executable(unchanged_program ../glog.cpp)
target_link_libraries(unchanged_program glog::glog)
END
cmake -S "$work/found" -B "$work/found/b" -DCMAKE_PREFIX_PATH="$work/prefix" -Dglog_DIR="$libdir/cmake/logdrive-glog" -DCMAKE_CXX_COMPILER="$cxx" > /dev/null
cmake --build "$work/found/b" > /dev/null
try "$work/found/b/logdrive_program" "find_package, shared"
try "$work/found/b/logdrive_static_program" "find_package, static"
try "$work/found/b/glog_program" "find_package, glog"
try "$work/found/b/unchanged_program" "find_package(glog) of a program as it is"

mkdir "$work/part"
cat > "$work/part/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(part CXX)
add_subdirectory($source logdrive)
add_executable(program ../main.cpp)
target_link_libraries(program logdrive::logdrive)
add_library(of_program STATIC ../main.cpp)
target_link_libraries(of_program PUBLIC logdrive::glog)
install(TARGETS of_program EXPORT all ARCHIVE DESTINATION lib)
install(EXPORT all DESTINATION lib)
END
cmake -S "$work/part" -B "$work/part/b" -DLOGDRIVE_LIBRARY_DIR="$libdir" -DCMAKE_CXX_COMPILER="$cxx" > /dev/null
cmake --build "$work/part/b" > /dev/null
try "$work/part/b/program" "add_subdirectory"
cmake --install "$work/part/b" --prefix "$work/part/prefix" > /dev/null
grep -q 'logdrive::glog' "$work/part/prefix/lib/all.cmake" || { echo "an exported library does not name its own"; exit 1; }

if command -v pkg-config > /dev/null; then
    export PKG_CONFIG_PATH="$libdir/pkgconfig"
    $cxx -std=c++17 "$work/main.cpp" -o "$work/by_pkg_config" $(pkg-config --cflags --libs logdrive)
    try "$work/by_pkg_config" "pkg-config"
    $cxx -std=c++17 "$work/glog.cpp" -o "$work/glog_by_pkg_config" $(pkg-config --cflags --libs logdrive-glog)
    try "$work/glog_by_pkg_config" "pkg-config, glog"
else
    echo "pkg-config: left out, install pkg-config"
fi
$cxx -std=c++17 -I"$source/include" "$work/main.cpp" -o "$work/by_hand" "$libdir/liblogdrive_c.a" -pthread -ldl -lm
try "$work/by_hand" "plain compiler, static"
$cxx -std=c++17 -I"$source/glog-include" -I"$source/include" "$work/glog.cpp" -o "$work/glog_by_hand" "$libdir/liblogdrive_c.a" -pthread -ldl -lm
try "$work/glog_by_hand" "plain compiler, glog without its library"

# Nothing of others can be seen in the libraries, nor debug information.
if nm --defined-only "$libdir/liblogdrive_c.a" 2> /dev/null | grep -E ' [A-TV-Z] ' | grep -v ' logdrive_'; then
    echo "liblogdrive_c.a has names of others"
    exit 1
fi
if nm -D --defined-only "$libdir/liblogdrive_c.so" | grep -v ' logdrive_'; then echo "liblogdrive_c.so has names of others"; exit 1; fi
for library in liblogdrive_c.a liblogdrive_c.so; do
    if readelf -S "$libdir/$library" | grep -q '\.debug_'; then echo "$library has debug information"; exit 1; fi
done
echo 'extern "C" int ZSTD_compress(); int main() { return ZSTD_compress(); }' > "$work/zstd.cpp"
if $cxx "$work/zstd.cpp" "$libdir/liblogdrive_c.a" -o "$work/zstd" -pthread -ldl -lm 2> /dev/null; then echo "its zstd can be linked"; exit 1; fi

# Packages: the archive, and what dpkg unpacks.
cpack --config "$build/CPackConfig.cmake" -B "$work/packages" > "$work/cpack" 2>&1 || { cat "$work/cpack"; exit 1; }
consume_package() {
    cmake -S "$work/found" -B "$work/$1" -DCMAKE_PREFIX_PATH="$2" -Dglog_DIR="$(dirname "$(find "$2" -name glog-config.cmake)")" \
        -DCMAKE_CXX_COMPILER="$cxx" > /dev/null
    cmake --build "$work/$1" > /dev/null
    for program in logdrive logdrive_static glog unchanged; do try "$work/$1/${program}_program" "$1, $program"; done
}
mkdir "$work/archive" && tar xzf "$work"/packages/*.tar.gz -C "$work/archive"
consume_package "of the archive" "$(find "$work/archive" -name usr)"
if command -v dpkg-deb > /dev/null; then
    dpkg-deb --info "$work"/packages/*.deb | grep -q 'Package: liblogdrive-dev' || { echo "no Debian package"; exit 1; }
    dpkg-deb --extract "$work"/packages/*.deb "$work/debian"
    consume_package "of the Debian package" "$work/debian/usr"
else
    echo "the Debian package: left out, install dpkg"
fi

# A release, where no cargo is: the sources and the libraries.
cmake --build "$build" --target logdrive_release > /dev/null
mkdir "$work/fetched" "$work/bin"
for tool in sh make gmake ninja cc c++ gcc g++ ld as ar ranlib nm objcopy strip "$cxx" cmake; do
    if path=$(command -v "$tool"); then ln -sf "$path" "$work/bin/"; fi
done
cat > "$work/fetched/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(fetched CXX)
include(FetchContent)
FetchContent_Declare(logdrive URL "$(find "$build/release" -name 'logdrive-cpp-*.tar.gz')")
FetchContent_MakeAvailable(logdrive)
add_executable(program ../main.cpp)
target_link_libraries(program logdrive::logdrive)
add_executable(static_program ../main.cpp)
target_link_libraries(static_program logdrive::logdrive_static)
add_executable(glog_program ../glog.cpp)
target_link_libraries(glog_program logdrive::glog)
END
(PATH="$work/bin" && cmake -S "$work/fetched" -B "$work/fetched/b" -DCMAKE_CXX_COMPILER="$cxx" && cmake --build "$work/fetched/b") > "$work/fetch" 2>&1 \
    || { cat "$work/fetch"; exit 1; }
for program in program static_program glog_program; do try "$work/fetched/b/$program" "a release without cargo, $program"; done
