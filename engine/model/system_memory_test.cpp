#include "engine/model/system_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "engine/model/memory.h"
#include "engine/testing/random_checkpoint.h"

namespace yoke::engine {
namespace {

/// A /proc as the kernel writes it.
class FakeProc {
 public:
  FakeProc() {
    std::ofstream(path() / "meminfo") << "MemTotal:       24683656 kB\n"
                                         "MemFree:        18600116 kB\n"
                                         "MemAvailable:   23117284 kB\n"
                                         "HugePages_Total:       0\n";
    add("812", "Name:\tcc1plus\nUmask:\t0022\nVmRSS:\t 1258291 kB\nThreads:\t1\n");
    add("7", "Name:\tthe editor\nVmRSS:\t  204800 kB\n");
    add("3", "Name:\tkthreadd\n");  // no memory of its own
    add("99", "Name:\tsmall\nVmRSS:\t4 kB\n");
    add(std::to_string(::getpid()), "Name:\tthis\nVmRSS:\t99999999 kB\n");
    std::filesystem::create_directory(path() / "sys");
    std::filesystem::create_directory(path() / "12");  // has just ended
  }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  void add(const std::string& pid, const std::string& status) {
    std::filesystem::create_directory(path() / pid);
    std::ofstream(path() / pid / "status") << status;
  }
  TempFolder folder_;
};

TEST(SystemMemory, reads_what_the_kernel_says) {
  const FakeProc proc;
  const auto memory = system_memory(proc.path());
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->total, uint64_t{24683656} * 1024);
  EXPECT_EQ(memory->available, uint64_t{23117284} * 1024);
  EXPECT_FALSE(system_memory("/nowhere"));
}

TEST(SystemMemory, the_largest_holders_but_for_this_process) {
  const FakeProc proc;
  const auto holders = memory_holders(2, proc.path());
  ASSERT_EQ(holders.size(), 2u);
  EXPECT_EQ(holders[0].pid, 812);
  EXPECT_EQ(holders[1].name, "the editor");
  EXPECT_EQ(describe(holders), "cc1plus (pid 812) 1.2 GiB, the editor (pid 7) 200.0 MiB");
  EXPECT_EQ(memory_holders(10, proc.path()).size(), 3u);
  EXPECT_TRUE(memory_holders(10, "/nowhere").empty());
}

TEST(Memory, numbers_for_people) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(131072), "131,072");
  EXPECT_EQ(format_count(-1234567), "-1,234,567");
  EXPECT_EQ(format_bytes(uint64_t{3} << 29), "1.5 GiB");
}

}  // namespace
}  // namespace yoke::engine
