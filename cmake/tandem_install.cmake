# What `cmake --install` installs, in two components:
#
#   tandem   the programs, systemd units, completions, manual pages
#   dev      the kernel SDK's headers, the client library and its headers, the CMake package, .pc files
#
# The target tandem_installed makes all of it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

add_custom_target(tandem_installed ALL)
add_dependencies(tandem_installed tandem_programs)

# ---- the programs. An executor is started by its worker alone.
install(TARGETS tandem tandem-master tandem-worker RUNTIME COMPONENT tandem)
install(TARGETS tandem-executor RUNTIME DESTINATION libexec/tandem COMPONENT tandem)
if(TARGET tandem-executor-cuda)  # in no package: it wants CUDA's libraries where the toolkit has them
  set_target_properties(tandem-executor-cuda PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS tandem-executor-cuda RUNTIME DESTINATION libexec/tandem COMPONENT cuda)
endif()

set(doc_folder ${CMAKE_BINARY_DIR}/installed)
add_custom_command(
  OUTPUT ${doc_folder}/man.stamp
  COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/deploy/man/make_man.py --bin ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}
          --version ${PROJECT_VERSION} --out ${doc_folder}/man
  COMMAND ${CMAKE_COMMAND} -E touch ${doc_folder}/man.stamp
  DEPENDS tandem tandem-master tandem-worker ${PROJECT_SOURCE_DIR}/deploy/man/make_man.py
  COMMENT "Manual pages from the programs' --help"
  VERBATIM)
add_custom_target(tandem_man DEPENDS ${doc_folder}/man.stamp)
add_dependencies(tandem_installed tandem_man)
foreach(section 1 8)
  install(DIRECTORY ${doc_folder}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT tandem
          FILES_MATCHING PATTERN "*.${section}")
endforeach()

# The shells' completions, as the command itself writes them.
set(completions)
foreach(shell bash zsh fish)
  add_custom_command(
    OUTPUT ${doc_folder}/completion.${shell}
    COMMAND tandem completion ${shell} > ${doc_folder}/completion.${shell}
    DEPENDS tandem
    COMMENT "Completion for ${shell}"
    VERBATIM)
  list(APPEND completions ${doc_folder}/completion.${shell})
endforeach()
add_custom_target(tandem_completions DEPENDS ${completions})
add_dependencies(tandem_installed tandem_completions)
install(FILES ${doc_folder}/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME tandem
        COMPONENT tandem)
install(FILES ${doc_folder}/completion.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _tandem
        COMPONENT tandem)
install(FILES ${doc_folder}/completion.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
        RENAME tandem.fish COMPONENT tandem)

# The units name /usr/bin; elsewhere they are told where the programs are.
install(FILES deploy/systemd/tandem-master.service deploy/systemd/tandem-worker.service
        DESTINATION lib/systemd/system COMPONENT tandem)
install(CODE [[
  if(NOT CMAKE_INSTALL_PREFIX MATCHES "/usr$")
    foreach(unit tandem-master tandem-worker)
      set(file $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib/systemd/system/${unit}.service)
      file(READ ${file} text)
      string(REPLACE "/usr/bin/" "${CMAKE_INSTALL_PREFIX}/bin/" text "${text}")
      string(REPLACE "/etc/default/" "${CMAKE_INSTALL_PREFIX}/etc/default/" text "${text}")
      file(WRITE ${file} "${text}")
    endforeach()
  endif()
]] COMPONENT tandem)
foreach(unit tandem-master tandem-worker)
  install(FILES deploy/systemd/${unit}.default DESTINATION etc/default RENAME ${unit} COMPONENT tandem)
endforeach()

# ---- the kernel SDK
install(DIRECTORY kernels/sdk/include/tandem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)

# ---- the client library: one archive of all of the tree's objects that it needs

# tandem_link_closure(TARGET archives others): the tree's static libraries behind a target, and everybody else's.
function(tandem_link_closure target archives others)
  set(left ${target})
  set(own)
  set(foreign)
  while(left)
    list(POP_FRONT left name)
    if(name MATCHES "^\\$<LINK_ONLY:(.+)>$")
      set(name ${CMAKE_MATCH_1})
    endif()
    if(name IN_LIST own OR name IN_LIST foreign OR name STREQUAL "tandem_warnings" OR name MATCHES "^\\$<")
      continue()
    endif()
    if(NOT name MATCHES "^tandem_")
      list(APPEND foreign ${name})
      continue()
    endif()
    list(APPEND own ${name})
    get_target_property(next ${name} INTERFACE_LINK_LIBRARIES)
    if(next)
      list(APPEND left ${next})
    endif()
  endwhile()
  set(${archives} ${own} PARENT_SCOPE)
  list(SORT foreign)
  set(${others} ${foreign} PARENT_SCOPE)
endfunction()

tandem_link_closure(tandem_client client_archives TANDEM_CLIENT_LIBRARIES)
list(REMOVE_ITEM TANDEM_CLIENT_LIBRARIES gRPC::grpc++_reflection)  # only servers have it
set(client_objects)
foreach(archive IN LISTS client_archives)
  get_target_property(type ${archive} TYPE)
  if(type STREQUAL STATIC_LIBRARY)
    list(APPEND client_objects $<TARGET_OBJECTS:${archive}>)
  endif()
endforeach()
add_library(tandem_client_archive STATIC ${client_objects})
set_target_properties(tandem_client_archive PROPERTIES OUTPUT_NAME tandem-client LINKER_LANGUAGE CXX
                      ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/installed)
add_dependencies(tandem_installed tandem_client_archive)
install(TARGETS tandem_client_archive ARCHIVE COMPONENT dev)

# error.h and reason.h tell one error from another.
set(client_headers client/lib/client.h client/lib/npy.h common/base/error.h common/base/reason.h)
add_custom_command(
  OUTPUT ${doc_folder}/headers.stamp
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${doc_folder}/include
  COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/cmake/public_headers.py --root ${PROJECT_SOURCE_DIR}
          --out ${doc_folder}/include ${client_headers}
  COMMAND ${CMAKE_COMMAND} -E touch ${doc_folder}/headers.stamp
  DEPENDS ${PROJECT_SOURCE_DIR}/cmake/public_headers.py ${client_headers} tandem_client
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
  COMMENT "Public headers of the client library"
  VERBATIM)
add_custom_target(tandem_client_headers DEPENDS ${doc_folder}/headers.stamp)
add_dependencies(tandem_installed tandem_client_headers)
install(DIRECTORY ${doc_folder}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)

# ---- how others find them
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
configure_package_config_file(cmake/tandemConfig.cmake.in ${doc_folder}/tandemConfig.cmake
  INSTALL_DESTINATION ${package_folder} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${doc_folder}/tandemConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${doc_folder}/tandemConfig.cmake ${doc_folder}/tandemConfigVersion.cmake cmake/tandem_kernels.cmake
        cmake/tandem_kernel_hash.cmake DESTINATION ${package_folder} COMPONENT dev)

set(requires)
foreach(library IN LISTS TANDEM_CLIENT_LIBRARIES)
  if(library MATCHES "^absl::(.+)$")
    list(APPEND requires absl_${CMAKE_MATCH_1})
  elseif(library STREQUAL "gRPC::grpc++")
    list(APPEND requires grpc++)
  elseif(library STREQUAL "protobuf::libprotobuf")
    list(APPEND requires protobuf)
  elseif(library STREQUAL "OpenSSL::Crypto")
    list(APPEND requires libcrypto)
  elseif(library STREQUAL "PkgConfig::XXHASH")
    list(APPEND requires libxxhash)
  else()
    message(FATAL_ERROR "tandem-client.pc: what is the pkg-config name of ${library}?")
  endif()
endforeach()
string(REPLACE ";" " " TANDEM_CLIENT_PC_REQUIRES "${requires}")
# From the folder of the .pc files back to the prefix.
file(RELATIVE_PATH TANDEM_PC_PREFIX /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)
foreach(name tandem-client tandem-kernel-sdk)
  configure_file(cmake/${name}.pc.in ${doc_folder}/${name}.pc @ONLY)
  install(FILES ${doc_folder}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endforeach()
