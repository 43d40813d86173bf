// Laws of the cache: a kernel is compiled once, whoever asks; what the disk gives is what was put
// there, whole, and by this user, or nothing; and no state of the disk is an error. Nothing is
// compiled here: a "kernel" is a text that follows from its key.
#include "cuda/jit/cache.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "cuda/jit/temporary_folder.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cuda::jit {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using testing::Variable;

constexpr std::uint64_t megabyte = 1 << 20;

DiskCacheSettings in(const std::string& directory, std::uint64_t limit = 64 * megabyte) {
  return {directory, {}, limit};
}
/// A text with zeros in it, as machine code has.
Cubin kernel_of(const std::string& key, std::size_t bytes = 1000) {
  Cubin cubin{{}, "kernel_" + key, "report of " + key};
  for (std::size_t i = 0; i < bytes; ++i) cubin.code += char(i * 31 + key.size() + i / 7);
  cubin.code += key;
  return cubin;
}
Origin origin_in(KernelCache& cache, const std::string& key) {
  const Found found = cache.get(key, [&] { return kernel_of(key); });
  EXPECT_EQ(found.cubin->code, kernel_of(key).code);
  EXPECT_EQ(found.cubin->kernel, kernel_of(key).kernel);
  EXPECT_EQ(found.cubin->report, kernel_of(key).report);
  return found.origin;
}
std::string content_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}
void replace_content(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

TEST(KernelCache, CompilesOncePerKeyThenTakesItFromMemoryThenFromDisk) {
  const TemporaryFolder folder;
  KernelCache first(in(folder.inner("made/here")));
  EXPECT_EQ(origin_in(first, "a"), Origin::compiled);
  EXPECT_EQ(origin_in(first, "a"), Origin::memory);
  EXPECT_EQ(origin_in(first, "b"), Origin::compiled);
  EXPECT_EQ(first.statistics(), (CacheStatistics{2, 1, 0, 0}));
  KernelCache second(in(folder.inner("made/here")));
  EXPECT_EQ(origin_in(second, "a"), Origin::disk);
  EXPECT_EQ(origin_in(second, "a"), Origin::memory);
  EXPECT_EQ(origin_in(second, "c"), Origin::compiled);
  EXPECT_EQ(second.statistics(), (CacheStatistics{1, 1, 1, 0}));
}

TEST(KernelCache, FilesAreTheUsersAlone) {
  const TemporaryFolder folder;
  KernelCache cache(in(folder.inner("new")));
  origin_in(cache, "a");
  struct stat found {};
  ASSERT_EQ(::stat(folder.inner("new").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat(cache.disk().path_of("a").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
}

TEST(KernelCache, ThreadsThatAskForOneKernelCompileItOnce) {
  KernelCache cache(in("", 0));
  std::atomic<int> compiled{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      const Found found = cache.get("one", [&] {
        ++compiled;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return kernel_of("one");
      });
      EXPECT_EQ(found.cubin->code, kernel_of("one").code);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(cache.statistics(), (CacheStatistics{1, 7, 0, 0}));
}

TEST(KernelCache, DifferentKernelsCompileSideBySide) {
  KernelCache cache(in("", 0));
  std::atomic<int> at_work{0};
  const auto both_at_once = [&](const std::string& key) {
    cache.get(key, [&] {
      ++at_work;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (at_work < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      return kernel_of(key);
    });
  };
  std::thread other([&] { both_at_once("a"); });
  both_at_once("b");
  other.join();
  EXPECT_EQ(at_work, 2) << "each waits for the other inside compile";
}

TEST(KernelCache, AFailureIsToldToAllAndNotKept) {
  KernelCache cache(in("", 0));
  const auto fails = []() -> Cubin { throw Error(ErrorCode::invalid_argument, "no"); };
  EXPECT_THROW(cache.get("a", fails), Error);
  EXPECT_THROW(cache.get("a", fails), Error);
  EXPECT_EQ(origin_in(cache, "a"), Origin::compiled);
  EXPECT_EQ(cache.statistics(), (CacheStatistics{1, 0, 0, 0}));
}

TEST(KernelCache, MemoryHoldsThoseUsedLast) {
  KernelCache cache(in("", 0));
  origin_in(cache, "first");
  for (std::size_t i = 1; i < KernelCache::most_in_memory; ++i) {
    origin_in(cache, std::to_string(i));
    origin_in(cache, "first");
  }
  origin_in(cache, "one too many");
  EXPECT_EQ(origin_in(cache, "first"), Origin::memory);
  EXPECT_EQ(origin_in(cache, "1"), Origin::compiled);
}

/// What a process finds in an entry's place.
struct Damage {
  const char* name;
  std::string (*of)(const std::string& whole);
};
void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

class DamagedEntry : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedEntry, IsCompiledAgainAndReplaced) {
  const TemporaryFolder folder;
  std::string path;
  {
    KernelCache cache(in(folder.path()));
    origin_in(cache, "key");
    path = cache.disk().path_of("key");
  }
  const std::string whole = content_of(path);
  replace_content(path, GetParam().of(whole));
  KernelCache cache(in(folder.path()));
  EXPECT_EQ(origin_in(cache, "key"), Origin::compiled);
  EXPECT_EQ(content_of(path), whole);
  KernelCache after(in(folder.path()));
  EXPECT_EQ(origin_in(after, "key"), Origin::disk);
}

INSTANTIATE_TEST_SUITE_P(
    KernelCache, DamagedEntry,
    ::testing::Values(
        Damage{"empty", [](const std::string&) { return std::string(); }},
        Damage{"half a header", [](const std::string& w) { return w.substr(0, 20); }},
        Damage{"a header alone", [](const std::string& w) { return w.substr(0, 64); }},
        Damage{"cut off", [](const std::string& w) { return w.substr(0, w.size() - 1); }},
        Damage{"one byte more", [](const std::string& w) { return w + "x"; }},
        Damage{"a changed byte",
               [](const std::string& w) {
                 std::string other = w;
                 other[other.size() - 300] ^= 1;
                 return other;
               }},
        Damage{"a length of 2^64 - 1",
               [](const std::string& w) { return std::string(w).replace(40, 8, 8, '\xff'); }},
        Damage{"another program's", [](const std::string&) { return std::string(5000, 'E'); }},
        Damage{"another key's", [](const std::string& w) {
                 std::string other = w;
                 return other.replace(other.find("key"), 3, "kez");
               }}));

TEST(KernelCache, EntriesThatOthersMayWriteAreNotTrusted) {
  const TemporaryFolder folder;
  KernelCache first(in(folder.path()));
  origin_in(first, "key");
  const std::string path = first.disk().path_of("key");
  ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
  KernelCache second(in(folder.path()));
  EXPECT_EQ(origin_in(second, "key"), Origin::compiled);
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  if (::geteuid() != 0) return;  // only root can give a file away
  ASSERT_EQ(::chown(path.c_str(), 12345, -1), 0);
  KernelCache third(in(folder.path()));
  EXPECT_EQ(origin_in(third, "key"), Origin::compiled) << "owned by another user";
}

TEST(KernelCache, ALinkInAnEntrysPlaceIsNotFollowed) {
  const TemporaryFolder folder;
  KernelCache first(in(folder.path()));
  origin_in(first, "key");
  const std::string path = first.disk().path_of("key");
  fs::rename(path, folder.inner("elsewhere"));
  fs::create_symlink(folder.inner("elsewhere"), path);
  KernelCache second(in(folder.path()));
  EXPECT_EQ(origin_in(second, "key"), Origin::compiled);
  EXPECT_FALSE(fs::is_symlink(path));
}

TEST(KernelCache, PassesOverADirectoryThatCannotBeWritten) {
  const TemporaryFolder folder;
  replace_content(folder.inner("file"), "a file where a directory should be");
  for (const std::string& directory :
       {folder.inner("file"), folder.inner("file/below"), std::string("/proc/none/tilefold")}) {
    KernelCache cache(in(directory));
    EXPECT_EQ(origin_in(cache, "a"), Origin::unstored);
    EXPECT_EQ(origin_in(cache, "a"), Origin::memory);
    EXPECT_EQ(cache.statistics(), (CacheStatistics{1, 1, 0, 1})) << directory;
    EXPECT_EQ(cache.disk().contents().entries, 0u);
  }
  KernelCache nowhere({"", "HOME is not set", 64 * megabyte});
  EXPECT_EQ(origin_in(nowhere, "a"), Origin::unstored);
  EXPECT_EQ(nowhere.statistics(), (CacheStatistics{1, 0, 0, 1}));
}

TEST(KernelCache, ALimitOfZeroIsNoDiskAndNoFailure) {
  const TemporaryFolder folder;
  KernelCache cache(in(folder.inner("none"), 0));
  EXPECT_EQ(origin_in(cache, "a"), Origin::compiled);
  EXPECT_EQ(cache.statistics(), (CacheStatistics{1, 0, 0, 0}));
  EXPECT_FALSE(fs::exists(folder.inner("none")));
}

TEST(DiskCache, TheFilesUsedLongestAgoGoFirst) {
  const TemporaryFolder folder;
  const std::size_t each = 100'000;
  const DiskCache cache(in(folder.path(), 5 * each));
  const auto age = [&](const std::string& key, int hours) {
    fs::last_write_time(cache.path_of(key),
                        fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  replace_content(folder.inner("a user's file.kernel"), std::string(10 * each, 'x'));
  for (const char* key : {"a", "b", "c", "d"}) {
    ASSERT_TRUE(cache.store(key, kernel_of(key, each)));
    age(key, 10 - key[0] + 'a');
  }
  EXPECT_EQ(cache.contents().entries, 4u);
  EXPECT_TRUE(cache.load("a").has_value());  // used now
  ASSERT_TRUE(cache.store("e", kernel_of("e", each)));
  EXPECT_EQ(cache.contents().entries, 4u);
  EXPECT_LE(cache.contents().bytes, 5 * each);
  EXPECT_FALSE(cache.load("b").has_value());
  for (const char* key : {"a", "c", "d", "e"}) EXPECT_TRUE(cache.load(key).has_value()) << key;
  EXPECT_TRUE(fs::exists(folder.inner("a user's file.kernel")));
}

TEST(DiskCache, WhatADeadWriterLeftGoesAfterAnHour) {
  const TemporaryFolder folder;
  const DiskCache cache(in(folder.path()));
  const std::string old = cache.path_of("x") + ".abcdef", fresh = cache.path_of("y") + ".abcdef";
  replace_content(old, "half");
  replace_content(fresh, "half");
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  ASSERT_TRUE(cache.store("a", kernel_of("a")));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_EQ(cache.contents().entries, 1u);
  EXPECT_EQ(cache.clear().entries, 1u);
  EXPECT_FALSE(fs::exists(fresh));
  EXPECT_EQ(cache.contents().bytes, 0u);
}

/// Of a child: 0 where all was right.
int work_in(const std::string& directory, int own) {
  for (int round = 0; round < 40; ++round) {
    // A limit that holds some of the files only: writers and removers meet.
    KernelCache cache(in(directory, 60'000));
    const std::string key = std::to_string((round * 7 + own) % 10);
    const Found found = cache.get(key, [&] { return kernel_of(key, 10'000); });
    if (found.cubin->code != kernel_of(key, 10'000).code) return 1;
    if (cache.statistics().write_failures != 0) return 2;
  }
  return 0;
}

TEST(KernelCache, ProcessesThatRaceOnADirectoryReadWholeKernels) {
  const TemporaryFolder folder;
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) ::_exit(work_in(folder.inner("shared"), i));
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  const DiskCache::Contents left = DiskCache(in(folder.inner("shared"))).contents();
  EXPECT_GE(left.entries, 1u);
  EXPECT_LE(left.entries, 10u);
  for (const auto& entry : fs::directory_iterator(folder.inner("shared")))
    EXPECT_EQ(entry.path().extension(), ".kernel") << "a file that nobody finished";
}

TEST(DiskCacheSettings, FollowTheEnvironment) {
  const TemporaryFolder folder;
  const Variable none("TILEFOLD_CACHE_DIR", nullptr), no_limit("TILEFOLD_CACHE_MB", nullptr);
  const Variable home("HOME", "/home-of-nobody");
  {
    const Variable xdg("XDG_CACHE_HOME", nullptr);
    EXPECT_EQ(disk_cache_settings().directory, "/home-of-nobody/.cache/tilefold");
    EXPECT_EQ(disk_cache_settings().limit_bytes, 256 * megabyte);
    const Variable homeless("HOME", nullptr);
    EXPECT_EQ(disk_cache_settings().directory, "");
    EXPECT_NE(disk_cache_settings().why_none, "");
  }
  const Variable xdg("XDG_CACHE_HOME", "/somewhere");
  EXPECT_EQ(disk_cache_settings().directory, "/somewhere/tilefold");
  {
    const Variable relative("XDG_CACHE_HOME", "here");
    EXPECT_EQ(disk_cache_settings().directory, "/home-of-nobody/.cache/tilefold");
  }
  const Variable own("TILEFOLD_CACHE_DIR", folder.inner("with a space").c_str());
  EXPECT_EQ(disk_cache_settings().directory, folder.inner("with a space"));
  KernelCache cache(disk_cache_settings());
  EXPECT_EQ(origin_in(cache, "a"), Origin::compiled);
  EXPECT_TRUE(fs::exists(folder.inner("with a space")));
  const Variable limit("TILEFOLD_CACHE_MB", "3");
  EXPECT_EQ(disk_cache_settings().limit_bytes, 3 * megabyte);
  for (const char* wrong : {"x", "-1", "3.5", "2000000"}) {
    const Variable bad("TILEFOLD_CACHE_MB", wrong);
    EXPECT_THROW(disk_cache_settings(), Error) << wrong;
  }
}

}  // namespace
}  // namespace tilefold::cuda::jit
