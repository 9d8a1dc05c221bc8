# CUDA code compiled by the C++ compiler and run on the CPU (ES_CUDA_EMULATED; docs/testing.md, "Emulated CUDA").
#
# Folders add .cu files to their targets as for nvcc. es_emulate_cuda(), called at the end, turns them into C++: headers of
# this folder are found before the real ones, and what must not be fused with nvcc is not fused here.
set(es_emulation_dir ${CMAKE_CURRENT_LIST_DIR})

add_library(es_emulation STATIC
  ${es_emulation_dir}/emulated_block.cpp
  ${es_emulation_dir}/emulated_fiber.cpp
  ${es_emulation_dir}/emulated_runtime.cpp
  ${es_emulation_dir}/emulated_stream.cpp
  ${es_emulation_dir}/emulated_symbols.cpp)
target_include_directories(es_emulation PRIVATE ${es_emulation_dir})
target_compile_options(es_emulation PRIVATE -Wall -Wextra -Wshadow -Wconversion
  $<$<BOOL:${ES_WERROR}>:-Werror>)

# all targets of a folder and of those below it
function(es_emulation_targets folder result)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(below DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(one IN LISTS below)
    es_emulation_targets(${one} more)
    list(APPEND targets ${more})
  endforeach()
  set(${result} ${targets} PARENT_SCOPE)
endfunction()

# -march=native: fused multiply-add as nvcc would use it, in one instruction; what is built here runs here.
# -fno-strict-aliasing: device code reads pairs of 16-bit numbers as words
function(es_emulate_source target file)
  # a source property wins over the target's; both may say --fmad=false
  get_source_file_property(source_options ${file} TARGET_DIRECTORY ${target} COMPILE_OPTIONS)
  get_target_property(target_options ${target} COMPILE_OPTIONS)
  set(options -include ${es_emulation_dir}/cuda_runtime.h -Wall -Wextra -Wno-unknown-pragmas
    -Wno-unused-function -march=native -fno-strict-aliasing -fno-math-errno -fno-trapping-math)
  if("${source_options};${target_options}" MATCHES "fmad=false")
    list(APPEND options -ffp-contract=off)
  endif()
  set_source_files_properties(${file} TARGET_DIRECTORY ${target} PROPERTIES
    LANGUAGE CXX COMPILE_OPTIONS "${options}" INCLUDE_DIRECTORIES ${es_emulation_dir})
endfunction()

function(es_emulate_cuda)
  es_emulation_targets(${PROJECT_SOURCE_DIR} targets)
  foreach(target IN LISTS targets)
    get_target_property(sources ${target} SOURCES)
    get_target_property(folder ${target} SOURCE_DIR)
    foreach(file IN LISTS sources)
      if(file MATCHES "\\.cu$")
        cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${folder})
        es_emulate_source(${target} ${file})
      endif()
    endforeach()
  endforeach()
endfunction()
