# tandem_add_kernels(TARGET name.h … [once.cc …] [cuda.cu …] [KERNELS Struct=dir/name.h …] [ISA_SOURCES thrice.cc …]
#                    [INCLUDES dir …] [LIBRARIES x …] [BUILTIN] [NO_CUDA])
#
# A library of kernels, TARGET.so, whose single export is `tandem_library_v1`: its kernels for x86-64-v2, v3 and v4, and
# one table that picks among them at run time; and TARGET.cuda.so beside it (target TARGET_cuda) where nvcc was found.
#
# The kernels are those that the headers define: each `struct Name {` whose first member is `static constexpr char kName[]`,
# in namespace TANDEM_KERNELS. KERNELS names structs one by one instead, each in a header relative to one of INCLUDES.
# Sources (.cc) are compiled once, ISA_SOURCES for each instruction set, .cu for the CUDA half. Paths are relative to
# the calling folder, which is then among INCLUDES.
#
# A kernel's content hash covers name.h and the files name_*.{h,cc,cu} beside it (name_ref.* excepted), the files that
# name.sources lists (relative to the project's root) and the SDK's version, whatever the compiler.
#
# BUILTIN makes a static library with `tandem_builtin_kernels` instead; NO_CUDA leaves the CUDA half out.
#
# tandem_add_cuda_kernels(TARGET [SHARED] KERNELS … [SOURCES …] [INCLUDES …] [LIBRARIES …])
#
# The CUDA half alone: `tandem_builtin_cuda_kernels`, or with SHARED a library TARGET.cuda.so.
if(NOT TANDEM_SDK_INCLUDE)  # in Tandem's own tree; an installed package says where its headers are
  set(TANDEM_SDK_INCLUDE ${CMAKE_CURRENT_LIST_DIR}/../kernels/sdk/include)
endif()
set(TANDEM_SDK_INCLUDE ${TANDEM_SDK_INCLUDE} CACHE INTERNAL "The folder of tandem/body.h")
set(TANDEM_KERNEL_HASH_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/tandem_kernel_hash.cmake CACHE INTERNAL "")
set(TANDEM_KERNEL_FLAGS -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  list(APPEND TANDEM_KERNEL_FLAGS -Wno-pass-failed)  # a loop that clang does not vectorise is no error
endif()
set(TANDEM_KERNEL_FLAGS ${TANDEM_KERNEL_FLAGS} CACHE INTERNAL "")

# Sorts the arguments of tandem_add_kernels: sets NAME_kernels, NAME_once (.cc) and NAME_cuda (.cu).
function(tandem_sort_sources target prefix)
  set(kernels)
  set(once)
  set(cuda)
  foreach(source IN LISTS ARGN)
    if(source MATCHES "\\.h$")
      file(READ ${CMAKE_CURRENT_SOURCE_DIR}/${source} text)
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
      string(REGEX REPLACE "[][;]" "." text "${text}")  # what lists trip over
      string(REGEX MATCHALL "struct +[A-Za-z0-9_]+ *{[ \t\r\n]*static +constexpr +char +kName" found "${text}")
      foreach(match IN LISTS found)
        string(REGEX REPLACE "^struct +([A-Za-z0-9_]+).*$" "\\1" name "${match}")
        list(APPEND kernels ${name}=${source})
      endforeach()
    elseif(source MATCHES "\\.cu$")
      list(APPEND cuda ${source})
    else()
      list(APPEND once ${source})
    endif()
  endforeach()
  foreach(var kernels once cuda)
    set(${prefix}_${var} ${${var}} PARENT_SCOPE)
  endforeach()
endfunction()

# Splits Struct=dir/name.h and finds the file: sets NAME_struct, NAME_header, NAME_stem, NAME_path.
function(tandem_parse_kernel item includes prefix)
  if(NOT item MATCHES "^([A-Za-z0-9_]+)=(.+)$")
    message(FATAL_ERROR "tandem_add_kernels: '${item}' is not Struct=dir/name.h")
  endif()
  set(struct ${CMAKE_MATCH_1})
  set(header ${CMAKE_MATCH_2})
  get_filename_component(stem ${header} NAME_WE)
  unset(path)
  foreach(dir IN LISTS includes)
    if(EXISTS ${dir}/${header})
      set(path ${dir}/${header})
      break()
    endif()
  endforeach()
  if(NOT path)
    message(FATAL_ERROR "tandem_add_kernels: ${header} is in none of: ${includes}")
  endif()
  foreach(var struct header stem path)
    set(${prefix}_${var} ${${var}} PARENT_SCOPE)
  endforeach()
endfunction()

# A header that defines TANDEM_CONTENT_HASH, made anew when a source of the kernel changes.
function(tandem_kernel_hash path stem out)
  get_filename_component(dir ${path} DIRECTORY)
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/${stem}.h ${dir}/${stem}_*.h ${dir}/${stem}_*.cc ${dir}/${stem}_*.cu)
  list(FILTER sources EXCLUDE REGEX "_ref\\.(h|cc)$")
  if(EXISTS ${dir}/${stem}.sources)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${dir}/${stem}.sources)
    file(STRINGS ${dir}/${stem}.sources shared)
    list(TRANSFORM shared PREPEND ${PROJECT_SOURCE_DIR}/)
    list(APPEND sources ${shared})
  endif()
  if(NOT TARGET tandem_hash_${stem})
    set(hash ${CMAKE_BINARY_DIR}/kernel_hashes/${stem}_hash.h)
    add_custom_command(
      OUTPUT ${hash}
      COMMAND ${CMAKE_COMMAND} -DOUT=${hash} -DSTEM=${stem} "-DSOURCES=${sources}"
              -DCONFIG=${TANDEM_SDK_INCLUDE}/tandem/config.h -P ${TANDEM_KERNEL_HASH_SCRIPT}
      DEPENDS ${sources} ${TANDEM_SDK_INCLUDE}/tandem/config.h ${TANDEM_KERNEL_HASH_SCRIPT}
      VERBATIM)
    add_custom_target(tandem_hash_${stem} DEPENDS ${hash})
    if(TARGET tandem_generated)
      add_dependencies(tandem_generated tandem_hash_${stem})
    endif()
  endif()
  set(${out} ${CMAKE_BINARY_DIR}/kernel_hashes PARENT_SCOPE)
endfunction()

# Writes a file only if its text changed.
function(tandem_write path text)
  file(CONFIGURE OUTPUT ${path} CONTENT "${text}" @ONLY)
endfunction()

function(tandem_add_kernels target)
  cmake_parse_arguments(A "BUILTIN;NO_CUDA" "" "KERNELS;SOURCES;ISA_SOURCES;INCLUDES;LIBRARIES" ${ARGN})
  tandem_sort_sources(${target} S ${A_UNPARSED_ARGUMENTS} ${A_SOURCES})
  list(APPEND A_KERNELS ${S_kernels})
  set(A_SOURCES ${S_once})
  if(NOT A_KERNELS)
    message(FATAL_ERROR "tandem_add_kernels(${target}): no header among its arguments defines a kernel: a struct whose "
                        "first member is `static constexpr char kName[]`")
  endif()
  if(S_kernels)
    list(APPEND A_INCLUDES ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  set(gen ${CMAKE_CURRENT_BINARY_DIR}/${target}_generated)
  set(units)
  set(hash_targets)
  foreach(isa v2 v3 v4)
    set(table_${isa})
  endforeach()
  set(declarations)
  set(stems)
  foreach(item IN LISTS A_KERNELS)
    tandem_parse_kernel(${item} "${A_INCLUDES}" K)
    if(NOT K_stem IN_LIST stems)
      list(APPEND stems ${K_stem})
      set(path_${K_stem} ${K_path})
      tandem_kernel_hash(${K_path} ${K_stem} hash_dir)
      list(APPEND hash_targets tandem_hash_${K_stem})
      set(text_${K_stem} "// Generated by tandem_add_kernels.
#include \"tandem/register.h\"
//
#include \"${K_header}\"
#include \"${K_stem}_hash.h\"
#define TANDEM_TABLE(name) TANDEM_CONCAT(TANDEM_CONCAT(tandem_kernel_, TANDEM_ISA), _##name)
")
    elseif(NOT path_${K_stem} STREQUAL K_path)
      message(FATAL_ERROR "tandem_add_kernels(${target}): ${path_${K_stem}} and ${K_path} have one name; give each "
                          "header of a library a name of its own")
    endif()
    string(APPEND text_${K_stem} "extern \"C\" {
__attribute__((visibility(\"hidden\"))) extern const TandemKernelV1 TANDEM_TABLE(${K_struct});
constexpr TandemKernelV1 TANDEM_TABLE(${K_struct}) =
    tandem::MakeKernel<TANDEM_KERNELS::${K_struct}>(TANDEM_CONTENT_HASH_${K_stem});
}
")
    foreach(isa v2 v3 v4)
      string(APPEND declarations "extern const TandemKernelV1 tandem_kernel_${isa}_${K_struct};\n")
      string(APPEND table_${isa} "    &tandem_kernel_${isa}_${K_struct},\n")
    endforeach()
  endforeach()
  # A unit a header: all of its kernels share what reading it costs.
  foreach(stem IN LISTS stems)
    tandem_write(${gen}/${stem}_kernels.cc "${text_${stem}}")
    list(APPEND units ${gen}/${stem}_kernels.cc)
    # Class tolerant allows contraction, in a header of its own.
    file(READ ${path_${stem}} text)
    if(text MATCHES "OutputClass::kTolerant" AND NOT text MATCHES "OutputClass::kBitwise")
      set_source_files_properties(${gen}/${stem}_kernels.cc PROPERTIES COMPILE_OPTIONS -ffp-contract=fast)
    endif()
  endforeach()
  set(objects)
  foreach(isa v2 v3 v4)
    add_library(${target}_${isa} OBJECT ${units} ${A_ISA_SOURCES})
    target_compile_options(${target}_${isa} PRIVATE ${TANDEM_KERNEL_FLAGS} -march=x86-64-${isa} -fvisibility=hidden)
    target_compile_definitions(${target}_${isa} PRIVATE TANDEM_ISA=${isa})
    target_include_directories(${target}_${isa} PRIVATE ${TANDEM_SDK_INCLUDE} ${A_INCLUDES} ${hash_dir})
    target_link_libraries(${target}_${isa} PRIVATE ${A_LIBRARIES} $<TARGET_NAME_IF_EXISTS:tandem_warnings>)
    set_target_properties(${target}_${isa} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_STANDARD 20
                          CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
    add_dependencies(${target}_${isa} ${hash_targets})
    list(APPEND objects $<TARGET_OBJECTS:${target}_${isa}>)
  endforeach()
  tandem_write_table(${gen}/${target}_table.cc "${declarations}" "${A_BUILTIN}")
  set(type SHARED)
  if(A_BUILTIN)
    set(type STATIC)
  endif()
  add_library(${target} ${type} ${gen}/${target}_table.cc ${A_SOURCES} ${objects})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON
                        CXX_EXTENSIONS OFF)
  target_include_directories(${target} PRIVATE ${TANDEM_SDK_INCLUDE} ${A_INCLUDES})
  target_link_libraries(${target} PRIVATE ${A_LIBRARIES} $<TARGET_NAME_IF_EXISTS:tandem_warnings>)
  if(A_BUILTIN)
    return()
  endif()
  set_target_properties(${target} PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  if(NOT TANDEM_SANITIZE)
    # Whatever the sources and libraries declare, one symbol is seen.
    tandem_write(${gen}/exports.map "{\n  global: tandem_library_v1;\n  local: *;\n};\n")
    target_link_options(${target} PRIVATE -Wl,--no-undefined -Wl,--exclude-libs,ALL
                        -Wl,--version-script=${gen}/exports.map)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${gen}/exports.map)
  endif()
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if("CUDA" IN_LIST languages AND NOT A_NO_CUDA)
    tandem_add_cuda_kernels(${target}_cuda SHARED KERNELS ${A_KERNELS} SOURCES ${S_cuda} INCLUDES ${A_INCLUDES})
    set_target_properties(${target}_cuda PROPERTIES OUTPUT_NAME ${target})
  endif()
endfunction()

function(tandem_write_table path declarations builtin)
  set(tables)
  foreach(isa v2 v3 v4)
    string(APPEND tables "const TandemKernelV1* const k_${isa}[] = {\n${table_${isa}}};
constexpr TandemLibraryV1 kLibrary_${isa} = {sizeof(TandemLibraryV1), TANDEM_ABI_MAJOR, TANDEM_ABI_MINOR,
                                        sizeof(k_${isa}) / sizeof(k_${isa}[0]), k_${isa}, TANDEM_SDK_VERSION,
                                        \"x86-64-${isa}\"};\n")
  endforeach()
  if(NOT builtin)
    set(entries "extern \"C\" __attribute__((visibility(\"default\"))) const TandemLibraryV1* tandem_library_v1(void);
extern \"C\" const TandemLibraryV1* tandem_library_v1(void) { return tandem::BestTable(kTables); }\n")
  else()
    set(entries "const TandemLibraryV1* tandem_builtin_kernels(void) { return tandem::BestTable(kTables); }
const TandemLibraryV1* tandem_builtin_kernels_for(const char* isa) { return tandem::TableFor(kTables, isa); }\n")
  endif()
  tandem_write(${path} "// Generated by tandem_add_kernels.
#include \"tandem/abi.h\"
#include \"tandem/config.h\"
#include \"tandem/dispatch.h\"
extern \"C\" {
${declarations}}
namespace {
${tables}const TandemLibraryV1* const kTables[3] = {&kLibrary_v2, &kLibrary_v3, &kLibrary_v4};
}  // namespace
${entries}")
endfunction()

# tandem_add_catalog(TARGET source.cc KERNELS … INCLUDES …): a library of plain data about kernels. The source includes
# the generated catalog_entries.inc, which has a line CATALOG_ENTRY(Struct, hash) a kernel after their headers.
function(tandem_add_catalog target source)
  cmake_parse_arguments(A "" "" "KERNELS;INCLUDES" ${ARGN})
  set(gen ${CMAKE_CURRENT_BINARY_DIR}/${target}_generated)
  set(headers)
  set(entries)
  set(hash_targets)
  foreach(item IN LISTS A_KERNELS)
    tandem_parse_kernel(${item} "${A_INCLUDES}" K)
    tandem_kernel_hash(${K_path} ${K_stem} hash_dir)
    list(APPEND hash_targets tandem_hash_${K_stem})
    string(APPEND headers "#include \"${K_header}\"\n#include \"${K_stem}_hash.h\"\n")
    string(APPEND entries "CATALOG_ENTRY(${K_struct}, TANDEM_CONTENT_HASH_${K_stem})\n")
  endforeach()
  tandem_write(${gen}/catalog_headers.inc "// Generated by tandem_add_catalog.\n${headers}")
  tandem_write(${gen}/catalog_entries.inc "// Generated by tandem_add_catalog.\n${entries}")
  add_library(${target} STATIC ${source})
  add_dependencies(${target} ${hash_targets})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}
                             PRIVATE ${gen} ${hash_dir} ${TANDEM_SDK_INCLUDE} ${A_INCLUDES})
  target_link_libraries(${target} PRIVATE tandem_warnings)
endfunction()

function(tandem_add_cuda_kernels target)
  cmake_parse_arguments(A "SHARED" "" "KERNELS;SOURCES;INCLUDES;LIBRARIES" ${ARGN})
  set(gen ${CMAKE_CURRENT_BINARY_DIR}/${target}_generated)
  set(units)
  set(hash_targets)
  set(declarations)
  set(table)
  foreach(item IN LISTS A_KERNELS)
    tandem_parse_kernel(${item} "${A_INCLUDES}" K)
    tandem_kernel_hash(${K_path} ${K_stem} hash_dir)
    list(APPEND hash_targets tandem_hash_${K_stem})
    tandem_write(${gen}/${K_struct}_kernel.cu "// Generated by tandem_add_cuda_kernels.
#include \"tandem/grid.cuh\"
//
#include \"${K_header}\"
#include \"${K_stem}_hash.h\"
extern \"C\" {
__attribute__((visibility(\"hidden\"))) extern const TandemKernelV1 tandem_kernel_cuda_${K_struct};
const TandemKernelV1 tandem_kernel_cuda_${K_struct} =
    tandem::MakeCudaKernel<TANDEM_KERNELS::${K_struct}>(TANDEM_CONTENT_HASH_${K_stem});
}
")
    list(APPEND units ${gen}/${K_struct}_kernel.cu)
    string(APPEND declarations "extern const TandemKernelV1 tandem_kernel_cuda_${K_struct};\n")
    string(APPEND table "    &tandem_kernel_cuda_${K_struct},\n")
  endforeach()
  set(entry tandem_builtin_cuda_kernels)
  set(type STATIC)
  if(A_SHARED)
    set(entry tandem_library_v1)
    set(type SHARED)
  endif()
  tandem_write(${gen}/${target}_table.cc "// Generated by tandem_add_cuda_kernels.
#include \"tandem/abi.h\"
#include \"tandem/config.h\"
extern \"C\" {
${declarations}__attribute__((visibility(\"default\"))) const TandemLibraryV1* ${entry}(void);
const TandemLibraryV1* ${entry}(void) {
  static const TandemKernelV1* const kernels[] = {
${table}};
  static const TandemLibraryV1 library = {sizeof(TandemLibraryV1), TANDEM_ABI_MAJOR, TANDEM_ABI_MINOR,
                                          sizeof(kernels) / sizeof(kernels[0]), kernels, TANDEM_SDK_VERSION, \"cuda\"};
  return &library;
}
}
")
  add_library(${target} ${type} ${gen}/${target}_table.cc ${units} ${A_SOURCES})
  if(A_SHARED)
    set_target_properties(${target} PROPERTIES PREFIX "" SUFFIX .cuda.so)
  endif()
  set_target_properties(${target} PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Shared
                        CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false --expt-relaxed-constexpr
                         -Xcompiler=-ffp-contract=off -Xfatbin=-compress=false>)
  target_compile_definitions(${target} PRIVATE TANDEM_ISA=cuda)
  target_include_directories(${target} PRIVATE ${TANDEM_SDK_INCLUDE} ${A_INCLUDES} ${hash_dir})
  target_link_libraries(${target} PRIVATE ${A_LIBRARIES})
  add_dependencies(${target} ${hash_targets})
endfunction()
