// The device as the CUDA runtime shows it: modules, kernels, variables, the last error, the launches that were made.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cta.h"
#include "decode.h"

namespace gates_cpu {

// Error numbers of the CUDA runtime that this one gives.
enum Error : int {
    kSuccess = 0, kInvalidValue = 1, kMemoryAllocation = 2, kInvalidConfiguration = 9, kInvalidSymbol = 13, kInvalidMemcpyDirection = 21,
    kInvalidDeviceFunction = 98, kNoDevice = 100, kInvalidDevice = 101, kNoKernelImage = 209, kInvalidPtx = 218, kInvalidResourceHandle = 400, kIllegalState = 401,
    kNotReady = 600, kIllegalAddress = 700, kLaunchOutOfResources = 701, kLaunchTimeout = 702, kAssert = 710, kMisalignedAddress = 716, kInvalidAddressSpace = 717, kLaunchFailure = 719,
    kCooperativeLaunchTooLarge = 720, kNotPermitted = 800, kNotSupported = 801, kStreamCaptureUnsupported = 900,
    kStreamCaptureInvalidated = 901, kStreamCaptureUnmatched = 903, kStreamCaptureUnjoined = 904, kStreamCaptureImplicit = 906, kCapturedEvent = 907,
    kInvalidClusterSize = 912
};
const char* error_name(int error);
const char* error_text(int error);

struct LoadedModule {
    std::string text;                                    // PTX
    std::unique_ptr<Module> module;                      // parsed at its first use
    std::map<std::string, std::uint64_t> variables;      // addresses
    std::map<std::pair<std::string, bool>, std::unique_ptr<Program>> programs;
    std::string problem;                                 // why it can't be used
    bool alone = false;                                  // no host program: its compiler relies on where a chip begins dynamic shared memory
    bool ready();                                        // parses, places variables; false with `problem`
    // `shifted`: dynamic shared memory begins at an address that is no more aligned than the kernel asks for. Throws Unsupported.
    Program& program(const std::string& kernel, bool shifted = false);
};

struct Kernel {
    LoadedModule* module = nullptr;
    std::string name;
    int dynamic_shared_limit = 49152;
    int opt_in = 0;  // what cudaFuncSetAttribute was asked for
    bool large_clusters = false;  // of more than 8 CTAs
};

struct Limits {  // of the chip
    int multiprocessors = 132, shared_per_block = 49152, shared_optin = 232448, shared_per_multiprocessor = 233472, threads_per_multiprocessor = 2048,
        blocks_per_multiprocessor = 32, registers = 65536, capability = 90;
};

// CTAs that a multiprocessor holds, as far as threads and shared memory decide it; registers are not known from PTX.
int resident(const Limits& limits, const Program& program, int threads, std::size_t dynamic_shared);

bool given_all(const Program& program, void** arguments);  // whether no argument's address is null

class Device {
  public:
    static Device& get();
    Limits limits;
    unsigned threads = 1;
    double time_limit_s = 60;
    std::size_t stack_bytes = 1024;    // a thread, as cudaDeviceSetLimit says
    std::uint64_t seed = 0;
    bool launches_only = false;        // record launches, run no CTA
    std::uint64_t launches_left_out = 0;  // those after the host has read results that were never computed

    LoadedModule* add_module(std::string text, std::string problem);
    void remove_module(LoadedModule* module);
    void add_kernel(const void* host, LoadedModule* module, const std::string& name);
    void add_variable(const void* host, LoadedModule* module, const std::string& name, std::size_t bytes);
    void add_managed(void** pointer, LoadedModule* module, const std::string& name, std::size_t bytes);
    void place_managed(LoadedModule* module);             // the host's pointers to its managed variables are set
    Kernel* kernel(const void* host);                     // null if unknown
    std::uint64_t variable(const void* host, std::size_t& bytes);  // 0 if unknown

    // `cluster`: of the launch; 0: as the kernel says, or none.
    int launch(Kernel* kernel, const std::uint32_t (&grid)[3], const std::uint32_t (&block)[3], void** arguments, std::size_t shared, bool cooperative,
               const std::uint32_t (&cluster)[3]);
    int set_error(int error);                             // hands it back
    int last_error(bool clear);
    bool lost() const { return sticky_; }                 // a kernel failed: every call gives its error until the next reset
    std::string launches_json() const;
    void results_are_read() { read_back_ = read_back_ || (launches_only && !records_.empty()); }
    std::uint64_t executed = 0;
    double executed_s = 0;
    void reset();

  private:
    struct Record {  // of a launch, also of one that was refused
        std::string kernel, error;
        std::uint32_t grid[3], block[3];
        std::size_t dynamic_shared;
        std::uint32_t static_shared = 0;
        int opt_in = 0;              // what cudaFuncSetAttribute allowed; 0: it was not asked
        unsigned max_threads = 0;    // of __launch_bounds__; 0: it has none
        std::uint64_t operations = 0;
    };
    struct Symbol { LoadedModule* module; std::string name; std::size_t bytes; };
    std::vector<std::unique_ptr<LoadedModule>> modules_;
    std::map<const void*, Kernel> kernels_;
    std::map<const void*, Symbol> symbols_;
    std::map<void**, Symbol> managed_;
    std::vector<Record> records_;
    int error_ = 0;
    bool sticky_ = false, read_back_ = false;
    int refuse(Record record, int error, const std::string& why);
};

}  // namespace gates_cpu
