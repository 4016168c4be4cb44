#include "client/lib/file_list.h"

#include <dirent.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <memory>

#include "client/lib/input_file.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::client {
namespace {

constexpr uint64_t kListBytesMax = 256 << 20;

absl::Status Nothing(std::string_view what) { return InvalidError(reason::kBadArgument, what); }

std::string Counted(uint64_t count, std::string_view one, std::string_view many) {
  return count == 0 ? "" : StrCat(count, " ", count == 1 ? one : many);
}

// Sorts what a directory or a pattern holds into files and what is left out.
class Sorter {
 public:
  // Errors: PATH_UNREADABLE for what is neither a file nor a directory.
  absl::Status Add(std::string path) {
    struct stat info {};
    if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      ++directories_;
      return absl::OkStatus();
    }
    if (!S_ISREG(info.st_mode)) RETURN_IF_ERROR(InputFile::Open(path).status());
    list_.files.push_back(std::move(path));
    return absl::OkStatus();
  }
  void LeaveHidden() { ++hidden_; }

  FileList Finish(std::string_view what) {
    std::sort(list_.files.begin(), list_.files.end());
    const std::string directories = Counted(directories_, "subdirectory", "subdirectories");
    const std::string hidden = Counted(hidden_, "hidden file", "hidden files");
    if (!directories.empty() || !hidden.empty()) {
      list_.left_out = StrCat(directories, directories.empty() || hidden.empty() ? "" : " and ",
                              hidden, " of ", Quoted(what));
    }
    return std::move(list_);
  }

 private:
  FileList list_;
  uint64_t directories_ = 0, hidden_ = 0;
};

absl::StatusOr<FileList> FilesOf(const std::string& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(directory.c_str()), closedir);
  if (open == nullptr) {
    const int error = errno;
    return Error(
        error == EACCES ? absl::StatusCode::kPermissionDenied : absl::StatusCode::kInvalidArgument,
        reason::kPathUnreadable,
        StrCat("cannot list ", Quoted(directory), ": ", std::strerror(error)));
  }
  Sorter sorter;
  const std::string prefix = directory.ends_with('/') ? directory : directory + "/";
  errno = 0;
  while (const dirent* entry = readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (name[0] != '.') {
      RETURN_IF_ERROR(sorter.Add(StrCat(prefix, name)));
    } else if (name != "." && name != "..") {
      sorter.LeaveHidden();
    }
    errno = 0;
  }
  if (errno != 0) {
    return InvalidError(reason::kPathUnreadable,
                        StrCat("cannot list ", Quoted(directory), ": ", std::strerror(errno)));
  }
  FileList list = sorter.Finish(directory);
  if (!list.files.empty()) return list;
  return Nothing(StrCat("directory ", Quoted(directory), " holds no files",
                        list.left_out.empty() ? "" : StrCat(" but ", list.left_out)));
}

absl::StatusOr<FileList> FilesMatching(const std::string& pattern) {
  glob_t found{};
  const int result = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  Sorter sorter;
  absl::Status status = absl::OkStatus();
  for (size_t i = 0; result == 0 && status.ok() && i < found.gl_pathc; ++i) {
    status = sorter.Add(found.gl_pathv[i]);
  }
  globfree(&found);
  RETURN_IF_ERROR(status);
  FileList list = sorter.Finish(pattern);
  if (!list.files.empty()) return list;
  return Nothing(StrCat("no file matches ", Quoted(pattern),
                        list.left_out.empty() ? "" : StrCat(" but ", list.left_out)));
}

absl::StatusOr<std::string> ReadStdin() {
  std::string text;
  char buffer[64 << 10];
  while (std::cin.read(buffer, sizeof buffer), std::cin.gcount() > 0) {
    text.append(buffer, static_cast<size_t>(std::cin.gcount()));
    if (text.size() > kListBytesMax) {
      return Error(absl::StatusCode::kResourceExhausted, reason::kLimitExceeded,
                   StrCat("the list on stdin is longer than ", HumanSize(kListBytesMax)));
    }
  }
  return text;
}

absl::StatusOr<FileList> FilesListedIn(const std::string& list) {
  std::string text;
  if (list == "-") {
    ASSIGN_OR_RETURN(text, ReadStdin());
  } else {
    ASSIGN_OR_RETURN(text, ReadWholeFile(list, kListBytesMax));
  }
  FileList found{ParseFileList(text), ""};
  if (!found.files.empty()) return found;
  return Nothing(StrCat(list == "-" ? "stdin" : Quoted(list), " names no files"));
}

}  // namespace

std::vector<std::string> ParseFileList(std::string_view text) {
  const bool nul = text.find('\0') != std::string_view::npos;
  std::vector<std::string> files;
  for (std::string_view line : Split(text, nul ? '\0' : '\n')) {
    if (!nul && !line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!line.empty()) files.emplace_back(line);
  }
  return files;
}

absl::StatusOr<FileList> FilesNamed(std::string_view what) {
  if (what.starts_with("list:")) return FilesListedIn(std::string(what.substr(5)));
  const std::string path(what);
  struct stat info {};
  const bool there = stat(path.c_str(), &info) == 0;
  if (there && S_ISDIR(info.st_mode)) return FilesOf(path);
  if (!there && path.find_first_of("*?[") != std::string::npos) return FilesMatching(path);
  return FileList{{path}, ""};
}

}  // namespace tandem::client
