#!/usr/bin/env bash
# An installation by `make install` is enough for other programs: examples/ build with pkg-config
# and with find_package, shared and static, from public headers alone; the shared library exports
# what those headers declare and nothing else.
#
# usage: installed_test.sh BUILD SOURCE
set -euo pipefail
build=$1
source=$2
cc=${CC:-cc}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix=$folder/prefix

fail() {
    echo "installed_test: $*" >&2
    exit 1
}

cmake --install "$build" --prefix "$prefix" > "$folder/install.log" || { cat "$folder/install.log"; fail "install failed"; }
library=$(dirname "$(find "$prefix" -name libesper.a)")
export PKG_CONFIG_PATH=$library/pkgconfig LD_LIBRARY_PATH=$library
[[ $(pkg-config --modversion esper) == "$("$prefix/bin/esper" --version | cut -d' ' -f2)" ]] || fail "versions differ"

# the policies that ship are found, wherever the prefix is moved to
"$prefix/bin/esper" fit --data tiny --max-params 4000 --epoch-batches 2 --dry-run > "$folder/plan"
grep -q "^# policy .*general.safetensors" "$folder/plan" ||
    fail "the shipped policies are not found: $(grep "^# policy" "$folder/plan")"

read -ra flags <<< "$(pkg-config --cflags esper)"
read -ra libraries <<< "$(pkg-config --libs esper)"
mapfile -t packages < <(pkg-config --print-requires-private esper | cut -d' ' -f1)
# every header stands alone, in C and in C++
for header in "$prefix"/include/esper/*.h; do
    printf "#include \"esper/%s\"\nextern int unused;\n" "$(basename "$header")" > "$folder/alone.c"
    "$cc" -std=c17 -Wall -Wextra -Werror -pedantic -fsyntax-only "${flags[@]}" "$folder/alone.c"
    if command -v c++ > /dev/null; then
        c++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only -x c++ "${flags[@]}" "$folder/alone.c"
    fi
done

# exports are the declarations
grep -ho '\bes_[a-z0-9_]*(' <(grep -h '^ES_API' "$prefix"/include/esper/*.h) | tr -d '(' | sort -u > "$folder/declared"
nm -D --defined-only "$library/libesper.so" | awk '$2 == "T" { sub("@.*", "", $3); print $3 }' | sort -u > "$folder/exported"
[[ $(wc -l < "$folder/declared") -gt 30 ]] || fail "no declarations found"
diff "$folder/declared" "$folder/exported" || fail "declared (<) and exported (>) functions differ"
readelf -d "$library/libesper.so" | grep -q 'SONAME.*libesper\.so\.[0-9]*\.[0-9]*\]' || fail "no SONAME"

# libesper.a beside shared libraries of others: --static would ask for theirs, too, down to the last
read -ra needed <<< "$(pkg-config --libs "${packages[@]}") $(sed -n 's/^Libs.private: //p' "$library/pkgconfig/esper.pc")"
for example in "$source"/examples/*.c; do
    name=$(basename "$example" .c)
    "$cc" -std=c17 -O1 "$example" -o "$folder/$name" "${flags[@]}" "${libraries[@]}" -lm
    readelf -d "$folder/$name" | grep -q 'NEEDED.*libesper\.so' || fail "$name does not use the shared library"
    "$folder/$name" > "$folder/$name.shared" || fail "$name, shared: exit code $?"
    "$cc" -std=c17 -O1 "$example" -o "$folder/$name-static" "${flags[@]}" "$library/libesper.a" \
        "${needed[@]}"
    "$folder/$name-static" > "$folder/$name.static" || fail "$name, static: exit code $?"
    cmp "$folder/$name.shared" "$folder/$name.static" || fail "$name: shared and static differ"
done

mkdir "$folder/user"
cat > "$folder/user/CMakeLists.txt" << EOF
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(esper $(pkg-config --modversion esper) REQUIRED)
foreach(name fit_digits grow_by_hand predict_images prove_kinship)
  add_executable(\${name} $source/examples/\${name}.c)
  target_link_libraries(\${name} PRIVATE esper::esper m)
  add_executable(\${name}_static $source/examples/\${name}.c)
  target_link_libraries(\${name}_static PRIVATE esper::static)
endforeach()
EOF
cmake -S "$folder/user" -B "$folder/user/build" -DCMAKE_PREFIX_PATH="$prefix" > "$folder/user.log" 2>&1 || { cat "$folder/user.log"; fail "find_package failed"; }
cmake --build "$folder/user/build" >> "$folder/user.log" 2>&1 || { cat "$folder/user.log"; fail "the CMake project does not build"; }
"$folder/user/build/prove_kinship" | cmp - "$folder/prove_kinship.shared" || fail "prove_kinship by CMake differs"
"$folder/user/build/prove_kinship_static" | cmp - "$folder/prove_kinship.shared" || fail "prove_kinship_static by CMake differs"

# the shared library asks for nothing: pkg-config finds no package here
mkdir "$folder/bare"
cat > "$folder/bare/CMakeLists.txt" << EOF
cmake_minimum_required(VERSION 3.25)
project(bare LANGUAGES C)
find_package(esper REQUIRED)
if(TARGET esper::static)
  message(FATAL_ERROR "esper::static without the libraries that it needs")
endif()
add_executable(prove_kinship $source/examples/prove_kinship.c)
target_link_libraries(prove_kinship PRIVATE esper::esper m)
EOF
{ PKG_CONFIG_PATH='' PKG_CONFIG_LIBDIR="$folder/bare" cmake -S "$folder/bare" -B "$folder/bare/build" \
    -DCMAKE_PREFIX_PATH="$prefix" -DPKG_CONFIG_USE_CMAKE_PREFIX_PATH=OFF && cmake --build "$folder/bare/build"; } \
    > "$folder/bare.log" 2>&1 || { cat "$folder/bare.log"; fail "the shared library alone is not found by CMake"; }
grep -q 'no esper::static' "$folder/bare.log" || fail "CMake does not say that esper::static is missing"
"$folder/bare/build/prove_kinship" | cmp - "$folder/prove_kinship.shared" || fail "prove_kinship of a bare machine differs"
echo "installed: headers, shared and static library, pkg-config and CMake package work"
