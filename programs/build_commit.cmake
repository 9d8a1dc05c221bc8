cmake_minimum_required(VERSION 3.25)
# Run at every build: writes OUTPUT with the commit, and only when it changed, so that nothing is rebuilt for nothing.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE result ERROR_QUIET)
if(NOT result EQUAL 0 OR commit STREQUAL "")
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define ES_BUILD_COMMIT \"@commit@\"\n" @ONLY)
