# `cpack` in the build folder makes two Debian packages: `tandem` (the programs) and `tandem-dev` (the kernel SDK and the
# client library). Neither has maintainer scripts: the units run as dynamic users, and nothing is enabled or started.
# cpack packs what is built; it does not build.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tandem)
set(CPACK_PACKAGE_VENDOR "The Tandem authors")
set(TANDEM_MAINTAINER "The Tandem authors <tandem@localhost>" CACHE STRING "Whose packages cpack makes: NAME <ADDRESS>")
set(CPACK_PACKAGE_CONTACT ${TANDEM_MAINTAINER})
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_COMPONENTS_ALL tandem dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
    WORLD_READ WORLD_EXECUTE)
# etc, completions and documents go where Debian has them.
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/deploy/deb/arrange.cmake)
set(CPACK_TANDEM_DEB_FOLDER ${PROJECT_SOURCE_DIR}/deploy/deb)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE "")
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)

set(CPACK_DEBIAN_TANDEM_PACKAGE_NAME tandem)
set(CPACK_DEBIAN_TANDEM_PACKAGE_SECTION net)
set(CPACK_DEBIAN_TANDEM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TANDEM_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/deploy/deb/conffiles)
set(CPACK_COMPONENT_TANDEM_DESCRIPTION "runs batch jobs over a cluster of servers with CPUs and GPUs
A job is one kernel, its operands and one named axis to split. The master cuts
it into ranges, workers pull pieces of them onto whichever of their devices is
free, and every result comes back exactly once, also when workers, executors or
the master die on the way.
.
This package has the programs: tandem, tandem-master and tandem-worker, and
systemd units that are neither enabled nor started.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME tandem-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
    "libgrpc++-dev, libprotobuf-dev, protobuf-compiler-grpc, libabsl-dev, libssl-dev, libxxhash-dev, pkg-config")
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS "cmake, g++")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "tandem")
set(CPACK_COMPONENT_DEV_DESCRIPTION "kernel SDK and C++ client library of Tandem
The headers that kernels for Tandem are written with, the static client library
with its headers, a CMake package (tandem::client, tandem::kernel_sdk,
tandem_add_kernels) and pkg-config files.")

include(CPack)
