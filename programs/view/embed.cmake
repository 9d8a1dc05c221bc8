# Writes OUTPUT, a header with the bytes of each of FILES (separated by commas) as an array: page.css becomes page_css.
# Programs carry the page with them, so that nothing has to be found or loaded when it is served.
string(REPLACE "," ";" files "${FILES}")
set(text "// Written by programs/view/embed.cmake.\n")
foreach(file ${files})
  get_filename_component(name ${file} NAME)
  string(MAKE_C_IDENTIFIER ${name} name)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  string(APPEND text "__attribute__((unused)) static const char ${name}[] = {${bytes}0};\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
