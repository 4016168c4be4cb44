/* The C ABI between a library of kernels and the process that runs them.
 *
 * A library (`x.so`, `x.cuda.so`, or the built-in set linked statically) exports one function,
 * `tandem_library_v1`, that returns a table of kernels for the best instruction set of this
 * machine. Only C types cross; no exception does.
 *
 *   const TandemLibraryV1* library = tandem_library_v1();
 *   const TandemKernelV1* kernel = library->kernels[0];
 *   TandemPart part = {args, {first_id, first_row}, tasks, fault, partial};
 *   int64_t failed = kernel->range(&part, 1, scratch);
 *
 * Layout of `args` (from the signature alone; asserted for each kernel at compile time):
 *   1. each operand and scalar in the signature's order, naturally aligned: a tensor is a pointer,
 * a scalar its value (bool one byte, 0 or 1; f16 and bf16 their two bytes), a `bytes` operand a
 *      `const TandemBytes*` with an element a row;
 *   2. each output that has no reduction, in order: a pointer; for `bytes` a `const TandemSink*`
 * with an element a row;
 *   3. each axis in the order of its first occurrence in the text: its extent, int64_t;
 *   4. int64_t: the index, in that order, of the axis that the job splits.
 * The caller fills all of it, `args_bytes`.
 *
 * Layout of tensors: dense, row-major, of *local* shape: the split axis has as many elements as the
 * buffer has rows (a window `n + h` has rows + h), every other axis its full extent; item 3 tells
 * these local extents. A part computes rows [first.row, first.row + tasks) of such buffers, so
 * parts cut from one buffer share one `args`. A tensor with the split axis inside (not first) is
 * thus a packed slice.
 *
 * Layout of a partial: the outputs with a reduction, in the signature's order, each dense and
 * aligned to TANDEM_PARTIAL_ALIGN.
 *
 * Host stages (TANDEM_HOST_STAGES): per task `measure`; the caller provides staging as `need` says;
 * `prepare`; then `range` over cells; then `finish`. For `range` a part is one task or a strip of
 * one: `args` is the task's `work`, `first.id` the task, `first.row` the first row of cells,
 * `tasks` the rows of cells; `fault` is not touched.
 *
 * Thread-safety: every function may be called from any number of threads; `scratch`, `partial` and
 * the rows written belong to the call. Ownership: the caller owns every buffer; a table lives as
 * long as its library. Append-only: fields are added at the end; `struct_bytes` says how much a
 * table has (TANDEM_HAS).
 */
#ifndef TANDEM_ABI_H_
#define TANDEM_ABI_H_

#if !defined(__CUDACC_RTC__)
#include <stddef.h>
#include <stdint.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TANDEM_ABI_MAJOR 1u
#define TANDEM_ABI_MINOR 0u
#define TANDEM_PARTIAL_ALIGN 64
#define TANDEM_SCRATCH_ALIGN 64

/* True where a table from a library of another minor version has this field. */
#define TANDEM_HAS(table, field) \
  ((table)->struct_bytes >= offsetof(TandemKernelV1, field) + sizeof((table)->field))

/* Fault bytes. 0 is success, 1 up to fault_count - 1 index `faults`, these are the SDK's own. */
enum {
  TANDEM_OK = 0,
  TANDEM_FAULT_OUT_OF_MEMORY = 254, /* a host stage found no memory */
  TANDEM_FAULT_INTERNAL = 255 /* a host stage ended in an exception or its sink refused the bytes */
};

/* TandemKernelV1.flags */
enum {
  /* Float sums: a part is one whole leaf with a fresh partial (`partial_init`), and partials merge
     up the range tree. Without it a partial may gather parts of any cut in any order. */
  TANDEM_WHOLE_LEAF = 1u << 0,
  TANDEM_HOST_STAGES = 1u << 1,  /* measure, prepare and finish stand around `range` */
  TANDEM_OWN_LAUNCHER = 1u << 2, /* own CPU loop and own CUDA launch (a vendor's library) */
  TANDEM_BLOCK_A_TASK = 1u << 3, /* CUDA: one block a task */
  TANDEM_OWN_MERGE =
      1u << 4 /* the outputs merge by the kernel's own `merge`, not by sum, min or max */
};

/* Whose bytes are the same (TandemKernelV1.output_class). */
enum {
  TANDEM_CLASS_UNSPECIFIED = 0,
  TANDEM_CLASS_EXACT = 1, /* integers, min, max: any order gives the same bytes */
  TANDEM_CLASS_BITWISE =
      2, /* floats, the same bytes on every instruction set and for any partition into nodes */
  TANDEM_CLASS_TOLERANT = 3 /* within `tolerance` (relative) of the reference */
};

/* A task: its index in the job, and its row in the buffers that `args` points to. */
typedef struct TandemTask {
  int64_t id, row;
} TandemTask;

/* A run of tasks that share their arguments. `fault` has a byte a task; it is neither read nor
   written where the kernel has fault_count <= 1, and may then be null. `partial` is added to; null
   for a kernel without reductions. */
typedef struct TandemPart {
  const void* args;
  TandemTask first;
  int64_t tasks;
  uint8_t* fault;
  void* partial;
} TandemPart;

typedef struct TandemBytes {
  const uint8_t* data;
  int64_t size;
} TandemBytes;

/* Where a task's `bytes` output goes. `write` appends and returns 0; anything else makes the task
 * fail. */
typedef struct TandemSink {
  int32_t (*write)(void* context, const void* bytes, int64_t size);
  void* context;
} TandemSink;

/* What `measure` asks for: staging bytes, and the cells of the grid. */
typedef struct TandemNeed {
  int64_t in_bytes, out_bytes;
  int32_t across, down;
} TandemNeed;

/* The first member of every `work`: the staging that the caller provided. A device gets a copy with
 * its own pointers. */
typedef struct TandemStage {
  uint8_t* in;
  uint8_t* out;
  int32_t across, down;
} TandemStage;

typedef struct TandemKernelV1 {
  uint32_t struct_bytes, flags;
  const char* name;
  const char* signature;     /* "spot[n]:f32, rate:f32 -> call[n]:f32": without the name */
  const char* const* faults; /* faults[0] is "ok" */
  uint32_t fault_count, output_class;
  uint64_t content_hash; /* of signature, sources and SDK version: the same in every build */
  double tolerance;      /* class tolerant: bound of the relative error */
  const char*
      split_axes; /* axes that a job may split, separated by spaces; the first is the default */
  double cost_ns; /* hint: one unit of work on one core, nanoseconds */
  const char* cost_units; /* hint: units of work a task, a product of scalars, axes and numbers: "k
                           * m", "1" */
  int64_t grain;          /* hint: tasks a leaf; 0 = from the cost */
  uint32_t args_bytes, shape_bytes, work_bytes, reserved;

  /* Scratch for one call of `range`, aligned to TANDEM_SCRATCH_ALIGN; 0 = null will do. */
  int64_t (*scratch_bytes)(const void* args);
  /* Null where no output has a reduction. `tasks`: how many the partial will count (own merges grow
   * with it). */
  int64_t (*partial_bytes)(const void* args, int64_t tasks);
  void (*partial_init)(const void* args, void* partial);

  /* Runs the tasks of `count` parts on this thread; returns how many failed. */
  int64_t (*range)(const TandemPart* parts, int32_t count, void* scratch);
  /* The same bytes by a shorter way, for a paced emulated device; null where there is none. */
  int64_t (*range_cheap)(const TandemPart* parts, int32_t count, void* scratch);
  /* `into`, whose tasks precede those of `from`, becomes the partial of both; it has room for them.
     Returns 0. An own merge counts all tasks and reads no operands (docs/kernels.md). */
  int32_t (*merge)(const void* args, void* into, int64_t into_tasks, const void* from,
                   int64_t from_tasks);

  /* Host stages; each returns the task's fault byte. `shape` has shape_bytes, `work` work_bytes,
     both aligned to 16. `work` starts with a TandemStage that `prepare` copies from `stage`; the
     kernel's args follow at work_args_offset. */
  int32_t (*measure)(const void* args, TandemTask task, void* shape, TandemNeed* need);
  int32_t (*prepare)(const void* args, TandemTask task, const void* shape, const TandemStage* stage,
                     void* work);
  int32_t (*finish)(const void* args, TandemTask task, const void* shape, const void* work);
  uint32_t work_args_offset, reserved2;

  /* CUDA library only, else null. In `parts` (host memory) and the args they point to, every
     pointer is a device pointer. `pack_parts` writes what the grid reads, args by value, part_bytes
     a part, into a slab that the caller copies to the device; `launch` gets both and the same
     workspace, never synchronises, and returns a cudaError_t. part_bytes is 0 and pack_parts null
     for a kernel with its own launcher. `tasks` is the sum over the parts. */
  int64_t part_bytes;
  void (*pack_parts)(const TandemPart* parts, int32_t count, void* slab, void* workspace);
  int64_t (*workspace_bytes)(const TandemPart* parts, int32_t count);
  int32_t (*launch)(const TandemPart* parts, const void* device_slab, int32_t count, int64_t tasks,
                    void* workspace, void* stream);

  const char* summary; /* one line for people; may be empty */
} TandemKernelV1;

typedef struct TandemLibraryV1 {
  uint32_t struct_bytes, abi_major, abi_minor, kernel_count;
  const TandemKernelV1* const* kernels;
  const char* sdk_version;
  const char* isa; /* "x86-64-v2", "x86-64-v3", "x86-64-v4" or "cuda" */
} TandemLibraryV1;

/* The only exported symbol of a shared library of kernels. It picks the best instruction set that
   the machine has, or what the environment's TANDEM_ISA ("v2", "v3", "v4") asks for; null where the
   machine lacks that, or lacks x86-64-v2. */
typedef const TandemLibraryV1* (*TandemLibraryV1Function)(void);
#define TANDEM_LIBRARY_SYMBOL "tandem_library_v1"

/* The kernels linked into this program (target tandem_kernels_builtin). */
const TandemLibraryV1* tandem_builtin_kernels(void);
/* The same kernels built for one instruction set, "v2", "v3" or "v4"; null where the machine lacks
 * it. */
const TandemLibraryV1* tandem_builtin_kernels_for(const char* isa);
/* Their CUDA half (target tandem_kernels_builtin_cuda). */
const TandemLibraryV1* tandem_builtin_cuda_kernels(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TANDEM_ABI_H_ */
