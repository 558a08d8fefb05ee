#!/bin/sh
# Every header alone and in two units of one program, by each compiler that is here, with all warnings as errors, with and
# without exceptions and type information; and programs under sanitizers. matrix.sh CLIENT_SOURCE_DIR LIBRARY_DIR
set -eu
source=$1 library=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warnings="-std=c++17 -Wall -Wextra -Wpedantic -Werror -I$source/include -I$source/glog-include"
cat > "$work/use.cpp" <<'END'
#include <logdrive/glog.h>
#include <logdrive/logdrive.hpp>
#include <logdrive/logdrive.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>
int UNIT(int value);
int UNIT(int value) {
    LOGDRIVE_INFO("value {} {:.2f} {}", value, 1.5, std::optional<int>(value));
    LOGDRIVE_WARN_EVERY_N(2, "named {name}", logdrive::kv("name", "x"));
    LOGDRIVE_INFO("late {} {:>{}}", std::vector<int>{value}, std::optional<int>(value), 20);
    LOGDRIVE_INFO_RUNTIME(std::string("run {} {}"), std::vector<std::string>{"a"}, value);
    LOG(INFO) << "value " << value << ' ' << 1.5;
    LOG_IF(WARNING, value > 1) << std::hex << value;
    VLOG(1) << value;
    CHECK_EQ(value, value) << "same";
    DCHECK(value == value);
    return value;
}
END
cat > "$work/main.cpp" <<'END'
#include <logdrive/glog.h>
#include <thread>
#include <vector>
int first(int), second(int);
int raced;
int main(int count, char **argv) {
    FLAGS_log_dir = argv[1];
    FLAGS_logdrive_run_dir = argv[2];
    FLAGS_logdrive_full = "block";
    google::InitGoogleLogging("matrix");
    // The first LOG starts logging: LOGDRIVE_INFO finds it running.
    LOG(INFO) << "start";
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([count] {
        for (int j = 0; j < 500; ++j) {
            first(j), second(j);
            if (count > 3) ++raced;
        }
    });
    for (std::thread &thread : threads) thread.join();
    LOG(ERROR) << "done";
}
END
for compiler in g++ clang++; do
    command -v $compiler > /dev/null || { echo "$compiler: left out, install it"; continue; }
    for header in $(cd "$source/include" && find . -name '*.h' -o -name '*.hpp'); do
        echo "#include <${header#./}>" > "$work/alone.cpp"
        $compiler $warnings -fsyntax-only "$work/alone.cpp"
    done
    for options in "-O2" "-O0" "-O2 -fno-exceptions -fno-rtti" "-O2 -DNDEBUG -DLOGDRIVE_MIN_LEVEL=3 -DGOOGLE_STRIP_LOG=2"; do
        $compiler $warnings $options -fsyntax-only -DUNIT=first "$work/use.cpp"
        echo "$compiler $options: ok"
    done
    echo '#include <logdrive/logdrive.h>
int main(void) { return logdrive_version()[0] == 0; }' > "$work/c.c"
    for sanitizer in address,undefined thread; do
        for unit in first second; do
            $compiler $warnings -O1 -g -fsanitize=$sanitizer -DUNIT=$unit -c "$work/use.cpp" -o "$work/$unit.o"
        done
        $compiler $warnings -O1 -g -fsanitize=$sanitizer -c "$work/main.cpp" -o "$work/main.o"
        if $compiler -fsanitize=$sanitizer "$work/main.o" "$work/first.o" "$work/second.o" -o "$work/main" \
            -L"$library" -llogdrive_c -Wl,-rpath,"$library" -pthread 2> "$work/link"; then
            $compiler -fsanitize=$sanitizer "$work/main.o" "$work/first.o" "$work/second.o" -o "$work/main_static" \
                "$library/liblogdrive_c.a" -pthread -ldl -lm
            for main in main main_static; do
                rm -rf "$work/log" && mkdir "$work/log"
                # As a user runs it: default options, no suppressions.
                "$work/$main" "$work/log" "$work/run" 2> "$work/err" || { cat "$work/err"; exit 1; }
                [ "$(grep -c 'value ' "$work/log/matrix.INFO")" = 8000 ] || { echo "lines are missing"; exit 1; }
            done
            if [ $sanitizer = thread ]; then
                # A race of the program's own is seen, and nothing else.
                "$work/main" "$work/log" "$work/run" race 2> "$work/err" && { echo "no race is found"; exit 1; }
                grep '^SUMMARY' "$work/err" | grep -v 'main.cpp:.*in operator()\|main.cpp:.*main::' && { cat "$work/err"; exit 1; }
                grep -q '^SUMMARY' "$work/err" || { cat "$work/err"; exit 1; }
            fi
            echo "$compiler -fsanitize=$sanitizer: ok"
        else
            echo "$compiler -fsanitize=$sanitizer: left out, its library is missing: $(head -1 "$work/link")"
        fi
    done
done
# A level that is left out leaves neither code nor strings, and formats that do not fit do not compile.
${CXX:-g++} $warnings -O2 -DLOGDRIVE_MIN_LEVEL=5 -DGOOGLE_STRIP_LOG=4 -DUNIT=first -c "$work/use.cpp" -o "$work/stripped.o"
if strings "$work/stripped.o" | grep -q 'named {name}'; then echo "a string of a level that is left out stays"; exit 1; fi
# One error, whose text says what to do, in at most 20 lines.
refused() {
    printf '#include <logdrive/logdrive.hpp>\n#include <map>\n#include <optional>\n#include <ostream>\n#include <string>\n#include <vector>\nstruct Odd {};\nvoid f(); void f() { %s; }\n' "$1" > "$work/bad.cpp"
    for compiler in g++ clang++; do
        command -v $compiler > /dev/null || continue
        if $compiler $warnings -fsyntax-only "$work/bad.cpp" 2> "$work/bad"; then echo "compiles: $1"; exit 1; fi
        grep -q "logdrive: $2" "$work/bad" || { cat "$work/bad"; echo "another error: $1"; exit 1; }
        [ "$(grep -c 'error:' "$work/bad")" = 1 ] && [ "$(wc -l < "$work/bad")" -le 20 ] \
            || { cat "$work/bad"; echo "a long error: $1"; exit 1; }
    done
}
refused 'LOGDRIVE_INFO("{}")' "the format has more"
refused 'LOGDRIVE_INFO("{", 1)' "a placeholder cannot"
refused 'LOGDRIVE_INFO("}", 1)' "a placeholder cannot"
refused 'LOGDRIVE_INFO("{:.2f}", 1)' "the type in"
refused 'LOGDRIVE_INFO("{:d}", std::string())' "the type in"
refused 'LOGDRIVE_INFO("{:x}", 1.5)' "the type in"
refused 'LOGDRIVE_INFO("{:{}}", 1, 1.5)' "the type in"
refused 'LOGDRIVE_INFO("{:{}}", 1)' "the format has more"
refused 'LOGDRIVE_INFO("{::.2f}", std::vector<int>())' "the type in"
refused 'LOGDRIVE_INFO("{::d}", std::vector<std::string>())' "the type in"
refused 'LOGDRIVE_INFO("none", 1)' "the format does not show"
refused 'LOGDRIVE_INFO("{nobody}", logdrive::kv("name", 1))' "a placeholder names"
refused 'LOGDRIVE_INFO("{}", logdrive::kv("name", 1), 2)' "arguments without"
refused 'LOGDRIVE_INFO("{}", Odd())' "a value has a type that cannot"
refused 'LOGDRIVE_INFO("{}", std::vector<Odd>())' "a value has a type that cannot"
refused 'LOGDRIVE_INFO("{}", std::map<int, std::optional<Odd>>())' "a value has a type that cannot"
refused 'LOGDRIVE_INFO("odd", logdrive::kv("odd", Odd()))' "a value has a type that cannot"
echo "what must not compile does not"
