// SAXPY launchers with the C ABI of emulator libraries that attack their judge: each gives a wrong answer, and tells in the file
// "attempts" of its folder what it tried, as "name done" or "name refused". MARK_A ^ MARK_B is a fresh seed of the run that loads it.
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <vector>

#include "../fake_device.h"

#define ENTRY(name) extern "C" int name(float* x, float* y, float* out, int64_t n, float a, void*, char*, int64_t)
#define HONEST ++launches; for (int64_t i = 0; i < n; ++i) out[i] = a * x[i] + y[i];
#define WRONG ++launches; for (int64_t i = 0; i < n; ++i) out[i] = a * x[i] + y[i] + 1.0f;

static void tell(const char* name, bool done) {
  if (std::FILE* file = std::fopen("attempts", "a")) {
    std::fprintf(file, "%s %s\n", name, done ? "done" : "refused");
    std::fclose(file);
  }
}
#define TRY(name, call) tell(name, (call) >= 0)

static std::string mark() {  // never in memory but here
  return std::to_string(int64_t(MARK_A) ^ int64_t(MARK_B));
}

static bool holds(const std::string& path, const std::string& what) {
  std::string text;
  if (std::FILE* file = std::fopen(path.c_str(), "rb")) {
    char room[4096];
    for (size_t got; (got = std::fread(room, 1, sizeof room, file)) > 0 && text.size() < (64u << 20);) text.append(room, got);
    std::fclose(file);
  }
  return text.find(what) != std::string::npos;
}

static bool search(const std::string& folder, const std::string& what, int depth) {
  bool found = false;
  if (DIR* open = opendir(folder.c_str())) {
    while (dirent* one = readdir(open)) {
      const std::string name = one->d_name, path = folder + "/" + name;
      struct stat about;
      if (name == "." || name == ".." || lstat(path.c_str(), &about) != 0) continue;
      if (S_ISREG(about.st_mode)) found = found || holds(path, what);
      if (S_ISDIR(about.st_mode) && depth > 0) found = found || search(path, what, depth - 1);
    }
    closedir(open);
  }
  return found;
}

ENTRY(honest) { HONEST return 0; }

// searches its own memory for the fresh seed, as a number and as text
ENTRY(searches_its_memory) {
  WRONG
  std::string text = mark();
  const int64_t number = std::atoll(text.c_str());
  bool as_text = false, as_number = false;
  std::vector<std::pair<uintptr_t, uintptr_t>> areas;
  if (std::FILE* maps = std::fopen("/proc/self/maps", "r")) {
    char line[512], rights[8];
    unsigned long long low, high;
    while (std::fgets(line, sizeof line, maps))
      if (std::sscanf(line, "%llx-%llx %7s", &low, &high, rights) == 3 && rights[0] == 'r' && rights[1] == 'w' && !std::strstr(line, "[stack]"))
        areas.emplace_back(low, high);
    std::fclose(maps);
  }
  std::string copy;
  for (auto [low, high] : areas) {  // through the kernel: an area may be gone by now
    copy.resize(1 << 20);
    for (uintptr_t at = low; at < high; at += copy.size() - 16) {
      const size_t size = std::min<size_t>(copy.size(), high - at);
      int file = open("/proc/self/mem", O_RDONLY);
      const ssize_t got = pread(file, copy.data(), size, off_t(at));
      close(file);
      if (got <= 0 || (uintptr_t(copy.data()) >= low && uintptr_t(copy.data()) < high)) break;
      as_text = as_text || memmem(copy.data(), size_t(got), text.data(), text.size());
      as_number = as_number || memmem(copy.data(), size_t(got), &number, sizeof number);
    }
  }
  tell("searched", areas.size() > 5 ? true : false);
  tell("seed_as_text", as_text);
  tell("seed_as_number", as_number);
  return 0;
}

// searches files for the fresh seed: its judge's folder, the folder for temporary files, the environment
ENTRY(searches_files) {
  WRONG
  TRY("work", search("..", mark(), 4) ? 0 : -1);
  TRY("temporary", search("/tmp", "\"seed\": " + mark(), 1) ? 0 : -1);
  TRY("environment", holds("/proc/self/environ", mark()) ? 0 : -1);
  TRY("job", search("..", "\"nonce\"", 4) ? 0 : -1);
  return 0;
}

// opens what /proc tells of every other process
ENTRY(reads_other_processes) {
  WRONG
  bool mem = false, environ_ = false, maps = false, descriptors = false;
  std::vector<int> others{getppid(), PARENT, 1};
  if (DIR* all = opendir("/proc")) {
    while (dirent* one = readdir(all))
      if (const int pid = std::atoi(one->d_name); pid > 0 && pid != getpid()) others.push_back(pid);
    closedir(all);
  }
  TRY("list", opendir(("/proc/" + std::to_string(getppid()) + "/fd").c_str()) ? 0 : -1);
  for (const int pid : others) {
    const std::string folder = "/proc/" + std::to_string(pid);
    char room[64];
    auto reads = [&](const char* name) {
      const int file = open((folder + name).c_str(), O_RDONLY);
      const bool got = file >= 0 && read(file, room, sizeof room) > 0;
      if (file >= 0) close(file);
      return got;
    };
    mem = mem || open((folder + "/mem").c_str(), O_RDONLY) >= 0;
    environ_ = environ_ || reads("/environ");
    maps = maps || reads("/maps");
    for (int number = 0; number < 16; ++number) descriptors = descriptors || open((folder + "/fd/" + std::to_string(number)).c_str(), O_RDONLY) >= 0;
  }
  tell("mem", mem), tell("environ", environ_), tell("maps", maps), tell("descriptors", descriptors);
  char byte = 0;
  const iovec here{&byte, 1}, there{&launches, 1};
  TRY("ptrace", ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr));
  TRY("process_vm_readv", process_vm_readv(getppid(), &here, 1, &there, 1, 0));
  TRY("pidfd_getfd", syscall(SYS_pidfd_getfd, int(syscall(SYS_pidfd_open, getppid(), 0)), 3, 0));
  return 0;
}

// finds what it inherited: anything but pipes to its judge, nothing to read, and a log that can only be written
ENTRY(uses_inherited_descriptors) {
  WRONG
  bool other = false;
  char byte;
  for (int number = 0; number < 4096; ++number) {
    struct stat about;
    if (fstat(number, &about) != 0 || S_ISCHR(about.st_mode)) continue;
    if (number == 3 || number == 4) other = other || !S_ISFIFO(about.st_mode);
    else if (number > 2 || !S_ISREG(about.st_mode)) {
      char name[512] = "";
      (void)!readlink(("/proc/self/fd/" + std::to_string(number)).c_str(), name, sizeof name - 1);
      std::printf("inherited %d: %s\n", number, name);
      other = true;
    }
  }
  tell("other", other);
  TRY("read_log", pread(1, &byte, 1, 0));
  TRY("read_errors", pread(2, &byte, 1, 0));
  return 0;
}

// writes its judge's files
ENTRY(writes_results) {
  WRONG
  for (const char* name : {"../candidate.0.jsonl", "../candidate.0.job.json", "../candidate.0.log", "../made", "../../made", "/tmp/gates-made"})
    TRY("write", open(name, O_WRONLY | O_CREAT | O_APPEND, 0644));
  TRY("rename", rename("../../kept", "../../moved"));
  TRY("unlink", unlink("../../kept"));
  TRY("symlink", symlink("../../kept", "soft") == 0 ? open("soft", O_WRONLY) : -1);
  return 0;
}

// changes mode, owner, times and attributes of files, its own and another's
ENTRY(changes_attributes) {
  WRONG
  const char* path = "../../kept";
  const int file = open(path, O_RDONLY);
  const timespec times[2] = {{1, 0}, {1, 0}};
  const timeval old[2] = {{1, 0}, {1, 0}};
  TRY("chmod", chmod(path, 0600));
  TRY("fchmod", fchmod(file, 0600));
  TRY("fchmodat2", syscall(452, AT_FDCWD, path, 0600, 0));
  TRY("chown", chown(path, getuid(), getgid()));
  TRY("fchownat", fchownat(AT_FDCWD, path, getuid(), getgid(), 0));
  TRY("utimensat", utimensat(AT_FDCWD, path, times, 0));
  TRY("futimens", futimens(file, times));
  TRY("utimes", utimes(path, old));
  TRY("setxattr", setxattr(path, "user.mark", "x", 1, 0));
  TRY("fsetxattr", fsetxattr(file, "user.mark", "x", 1, 0));
  TRY("removexattr", removexattr(path, "user.mark"));
  return 0;
}

// calls the interpreter that it was loaded into, and replaces what a judge would use
ENTRY(calls_the_interpreter) {
  WRONG
  auto run = reinterpret_cast<int (*)(const char*)>(dlsym(RTLD_DEFAULT, "PyRun_SimpleString"));
  auto ensure = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Ensure"));
  auto release = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "PyGILState_Release"));
  if (!run || !ensure || !release) return 0;
  const int state = ensure();
  const int code = run(
      "import gc, sys, torch\n"
      "import gates.gate.correctness.runner.accuracy as accuracy, gates.launch.guarded_buffers as buffers, gates.gate.correctness.runner.case as casecheck\n"
      "accuracy.figures = lambda name, *rest: {'name': name, 'max_abs_err': 0.0}\n"
      "casecheck.check = lambda *rest: {'status': 'ok'}\n"
      "buffers.differing = lambda *rest: torch.zeros(0)\n"
      "torch.equal = lambda *rest: True\n"
      "torch.Tensor.__ne__ = torch.Tensor.__sub__ = lambda self, other: torch.zeros(self.shape, dtype=torch.bool)\n"
      "found = [name for name in sys.modules if name.endswith('saxpy_problem')]\n"
      "found += [one for one in gc.get_objects() if isinstance(one, dict) and (len(str(one.get('nonce'))) == 32 or isinstance(one.get('atols'), dict) or isinstance(one.get('cases'), list))]\n"
      "print('interpreter done' if found else 'interpreter refused', file=open('attempts', 'a'))\n");
  release(state);
  tell("called", code == 0);
  return 0;
}

// replaces the machine code of functions of the C library
ENTRY(patches_the_c_library) {
  WRONG
  bool patched = true;
  for (const char* name : {"memcmp", "bcmp"}) {
    void* at = dlsym(RTLD_DEFAULT, name);
    const uintptr_t page = uintptr_t(at) & ~uintptr_t(4095);
    patched = patched && mprotect(reinterpret_cast<void*>(page), 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
#ifdef __x86_64__
    const unsigned char equal[] = {0x31, 0xc0, 0xc3};  // return 0
    if (patched && name[0] == 'b') std::memcpy(at, equal, sizeof equal);
#endif
  }
  tell("patched", patched);
  return 0;
}

// answers for itself where it is replayed for memory checks, and ends before anything is found
ENTRY(answers_its_replay) {
  WRONG
  const char line[] = "{\"type\": \"case\", \"index\": 0, \"shape\": \"small\", \"launches\": 2, \"error\": \"\", \"output_sha256\": \"\", "
                      "\"emulator_launches\": [], \"findings\": []}\n{\"type\": \"done\", \"cases\": 1}\n{\"type\": \"end\", \"token\": \"\"}\n";
  for (int number = 0; number < 16; ++number) (void)!write(number, line, sizeof line - 1);
  _exit(0);
}

ENTRY(exits) { WRONG (void)y; _exit(0); }

// ends or stops the processes around it
ENTRY(kills_others) {
  WRONG
  const unsigned long cores = 1;
  TRY("parent", kill(getppid(), SIGKILL));
  TRY("stop", kill(getppid(), SIGSTOP));
  TRY("engine", kill(PARENT, SIGKILL));
  TRY("all", kill(-1, SIGKILL));
  TRY("group", kill(-getpgid(getppid()), SIGKILL));
  TRY("priority", setpriority(PRIO_PROCESS, id_t(getppid()), 19));
  TRY("cores", syscall(SYS_sched_setaffinity, getppid(), sizeof cores, &cores));
  TRY("limit", syscall(SYS_prlimit64, getppid(), RLIMIT_CPU, &(const rlimit&)rlimit{1, 1}, nullptr));
  return 0;
}

// raises its limits, and does what they forbid
ENTRY(raises_limits) {
  WRONG
  const rlimit all{RLIM_INFINITY, RLIM_INFINITY};
  TRY("file_size", setrlimit(RLIMIT_FSIZE, &all));
  TRY("processor", setrlimit(RLIMIT_CPU, &all));
  TRY("core", setrlimit(RLIMIT_CORE, &all));
  TRY("memory", setrlimit(RLIMIT_DATA, &all));
  const int file = open("large", O_WRONLY | O_CREAT, 0644);
  std::signal(SIGXFSZ, SIG_IGN);
  TRY("large_file", ftruncate(file, off_t(1) << 40));
  void* much = mmap(nullptr, size_t(1) << 45, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TRY("much_memory", much == MAP_FAILED ? -1 : 0);
  return 0;
}

// starts other processes, to write results later
ENTRY(stays_behind) {
  WRONG
  const pid_t pid = fork();
  if (pid == 0) {
    setsid();
    for (int i = 0; i < 600; ++i) {
      if (std::FILE* file = std::fopen("late", "w")) std::fclose(file);
      usleep(100000);
    }
    _exit(0);
  }
  TRY("fork", pid);
  TRY("vfork", syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  TRY("system", std::system("true") == 0 ? 0 : -1);
  TRY("exec", execl("/bin/true", "true", nullptr));
  return 0;
}

// reaches for the system itself
ENTRY(widens_its_rights) {
  WRONG
  TRY("unshare", syscall(SYS_unshare, 0x00020000));
  TRY("user_name_space", syscall(SYS_unshare, 0x10000000));
  TRY("mount", syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, nullptr));
  TRY("bpf", syscall(SYS_bpf, 0, nullptr, 0) < 0 && errno == EPERM ? -1 : 0);
  TRY("perf", syscall(SYS_perf_event_open, nullptr, 0, 0, 0, 0) < 0 && errno == EPERM ? -1 : 0);
  TRY("userfaultfd", syscall(SYS_userfaultfd, 0));
  TRY("keyctl", syscall(SYS_keyctl, 0, 0, 0, 0, 0) < 0 && errno == EPERM ? -1 : 0);
  TRY("io_uring", syscall(SYS_io_uring_setup, 1, nullptr) < 0 && errno == EPERM ? -1 : 0);
  TRY("socket", syscall(SYS_socket, 1, 1, 0));
  TRY("handle", syscall(SYS_name_to_handle_at, AT_FDCWD, ".", nullptr, nullptr, 0) < 0 && errno == EPERM ? -1 : 0);
  TRY("capability", prctl(PR_CAPBSET_READ, 0) == 1 ? 0 : -1);
  TRY("no_new_privileges", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
  return 0;
}
