#!/bin/sh
# Size of 200 calls with up to five values each, of six types, beside that of the same calls of spdlog, and of the same streams of
# glog. The object is at most as large as that with spdlog, its code (what `size` calls text) at most that with glog, at -O0 and -O2.
# Prints times to compile, the least of RUNS (1), which it does not judge. Rivals that are missing are left out.
#   size.sh CLIENT_SOURCE_DIR
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# calls KIND HEADER: of the kind format, MACRO("x={} y={}", x, y), or stream, LOG(INFO) << "x=" << x << " y=" << y.
calls() {
    awk -v macro="$1" -v header="$2" 'BEGIN {
        print "#include <" header ">\n#include <string>"
        split("i d s u c b", names, " ")
        seed = 7
        for (part = 0; part < 20; ++part) {
            print "void f" part "(int i, double d, const std::string &s, unsigned long u, const char *c, bool b);"
            print "void f" part "(int i, double d, const std::string &s, unsigned long u, const char *c, bool b) {"
            for (call = 0; call < 10; ++call) {
                format = "event " call " of part " part
                stream = " << \"" format
                values = ""
                seed = (seed * 1103 + 12345) % 65521
                for (left = seed % 6; left > 0; --left) {
                    seed = (seed * 1103 + 12345) % 65521
                    name = names[1 + seed % 6]
                    format = format " " name "={}"
                    stream = stream " " name "=\" << " name " << \""
                    values = values ", " name
                }
                if (macro == "LOG") print "    LOG(INFO)" stream "\";"
                else print "    " macro "(\"" format "\"" values ");"
            }
            print "    (void)i, (void)d, (void)s, (void)u, (void)c, (void)b;\n}"
        }
    }' | sed 's/ << "";/;/'
}
calls LOGDRIVE_INFO logdrive/logdrive.hpp > "$work/logdrive.cpp"
calls SPDLOG_INFO spdlog/spdlog.h > "$work/spdlog.cpp"
calls LOG logdrive/glog.h > "$work/facade.cpp"
calls LOG glog/logging.h > "$work/glog.cpp"
# Text, data and what the loader fills in.
bytes() { size "$1" | awk 'NR == 2 { print $1 + $2 + $3 }'; }
code() { size "$1" | awk 'NR == 2 { print $1 }'; }
# measure NAME: compiles, and prints sizes and time.
measure() {
    least=
    for _ in $(seq "${RUNS:-1}"); do
        begin=$(date +%s%N)
        $compiler -std=c++17 $level -I"$source/include" -DLOGDRIVE_GLOG_LIBRARY -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL \
            -c "$work/$1.cpp" -o "$work/$1.o"
        taken=$((($(date +%s%N) - begin) / 1000000))
        if [ -z "$least" ] || [ $taken -lt "$least" ]; then least=$taken; fi
    done
    echo "$compiler $level $1: $(bytes "$work/$1.o") bytes, $(code "$work/$1.o") of code, $least ms"
}
pair() {
    if ! $compiler -std=c++17 -fsyntax-only -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL "$work/$2.cpp" 2> /dev/null; then
        echo "$2: left out, install it"
        return
    fi
    for level in -O0 -O2; do
        measure "$1"
        measure "$2"
        of=$([ "$2" = glog ] && echo code || echo bytes)
        [ "$($of "$work/$1.o")" -le "$($of "$work/$2.o")" ] || { echo "larger than that of $2"; exit 1; }
    done
}
for compiler in g++ clang++; do
    command -v $compiler > /dev/null || { echo "$compiler: left out, install it"; continue; }
    pair logdrive spdlog
    pair facade glog
done
