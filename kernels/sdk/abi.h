// The C ABI of kernels under the tree's own include path; the text is the SDK's public header.
#ifndef TANDEM_KERNELS_SDK_ABI_H_
#define TANDEM_KERNELS_SDK_ABI_H_

#include "kernels/sdk/include/tandem/abi.h"

#endif  // TANDEM_KERNELS_SDK_ABI_H_
