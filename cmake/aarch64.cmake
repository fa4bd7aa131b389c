# Cross build for the product's own CPU (Grace in the GB10) against the sysroot of tools/sysroot; programs run under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(YOKE_SYSROOT "${CMAKE_CURRENT_LIST_DIR}/../build/sysroot-aarch64")
cmake_path(NORMAL_PATH YOKE_SYSROOT)
if(NOT EXISTS "${YOKE_SYSROOT}/usr/include")
  message(FATAL_ERROR "wanted arm64 packages in ${YOKE_SYSROOT}, found none: run tools/sysroot")
endif()
set(CMAKE_SYSROOT "${YOKE_SYSROOT}")
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(CMAKE_FIND_ROOT_PATH "${YOKE_SYSROOT}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${YOKE_SYSROOT}")
set(ENV{PKG_CONFIG_LIBDIR} "${YOKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${YOKE_SYSROOT}/usr/share/pkgconfig")

# Which CPU is emulated is said at run time by QEMU_CPU.
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-L;${YOKE_SYSROOT}")
