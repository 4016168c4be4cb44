// What an Xid, the number by which NVIDIA's driver reports an error, means for the device: does it
// go out of service, or was an application at fault?
//
// The sources: NVIDIA's "Xid Errors" (docs.nvidia.com/deploy/xid-errors) and the list of
// application errors that the Kubernetes device plugin passes over. Thread-safety: pure functions.
#ifndef TANDEM_WORKER_DEVICE_NVML_XID_H_
#define TANDEM_WORKER_DEVICE_NVML_XID_H_

#include <cstdint>
#include <string>

namespace tandem::worker {

enum class XidMeaning {
  kOutOfService,  // the device takes no more work until somebody has mended it
  kApplication,   // a kernel or its process was at fault; the device is well
  kNoted,         // worth a line in the log
};
XidMeaning MeaningOfXid(uint64_t xid);

// "Xid 79: the GPU has fallen off the bus; reboot, and reseat it if that happens again".
std::string DescribeXid(uint64_t xid);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_NVML_XID_H_
