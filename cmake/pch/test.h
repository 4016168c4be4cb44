// What tests precompile besides.
//
// Never included by name: tandem_pch.cmake hands it to the compiler.
#ifndef TANDEM_CMAKE_PCH_TEST_H_
#define TANDEM_CMAKE_PCH_TEST_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#endif  // TANDEM_CMAKE_PCH_TEST_H_
