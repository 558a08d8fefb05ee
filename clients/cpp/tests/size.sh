#!/bin/sh
# Code of 200 calls with up to five values each, of six types, beside that of the same calls of spdlog: the object is at most as
# large, without optimisation and with -O2. Prints times to compile, which it does not judge. size.sh CLIENT_SOURCE_DIR
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
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
                values = ""
                seed = (seed * 1103 + 12345) % 65521
                for (left = seed % 6; left > 0; --left) {
                    seed = (seed * 1103 + 12345) % 65521
                    name = names[1 + seed % 6]
                    format = format " " name "={}"
                    values = values ", " name
                }
                print "    " macro "(\"" format "\"" values ");"
            }
            print "    (void)i, (void)d, (void)s, (void)u, (void)c, (void)b;\n}"
        }
    }'
}
calls LOGDRIVE_INFO logdrive/logdrive.hpp > "$work/logdrive.cpp"
calls SPDLOG_INFO spdlog/spdlog.h > "$work/spdlog.cpp"
# Text, data and what the loader fills in.
bytes() { size "$1" | awk 'NR == 2 { print $1 + $2 + $3 }'; }
for compiler in g++ clang++; do
    command -v $compiler > /dev/null || { echo "$compiler: left out, install it"; continue; }
    for level in -O0 -O2; do
        for name in logdrive spdlog; do
            begin=$(date +%s%N)
            $compiler -std=c++17 $level -I"$source/include" -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL -c "$work/$name.cpp" \
                -o "$work/$name.o"
            echo "$compiler $level $name: $(bytes "$work/$name.o") bytes, $((($(date +%s%N) - begin) / 1000000)) ms"
        done
        [ "$(bytes "$work/logdrive.o")" -le "$(bytes "$work/spdlog.o")" ] || { echo "larger than spdlog's"; exit 1; }
    done
done
