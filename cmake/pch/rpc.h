// What targets that speak Protobuf and gRPC precompile besides pure.h.
//
// Never included by name: tandem_pch.cmake hands it to the compiler.
#ifndef TANDEM_CMAKE_PCH_RPC_H_
#define TANDEM_CMAKE_PCH_RPC_H_

#include <google/protobuf/map.h>
#include <google/protobuf/message.h>
#include <google/protobuf/repeated_field.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_callback.h>
#include <grpcpp/support/server_callback.h>

#endif  // TANDEM_CMAKE_PCH_RPC_H_
