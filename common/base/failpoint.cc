#include "common/base/failpoint.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem {
namespace {

enum class Action { kOff, kCrash, kError, kSleep, kPause };

struct Term {
  Action action = Action::kOff;
  absl::Duration sleep;
  int percent = 100;
  std::optional<uint64_t> hits_left;
};

absl::Status Bad(std::string_view term) {
  return InvalidError(reason::kBadArgument,
                      StrCat("failpoint term ", Quoted(term),
                             " cannot be read: write [P%][N*]action with action one of off, crash, "
                             "error, sleep(ms), pause"));
}

// Cuts a number that ends with `mark` off the front of `text`, where there is one.
bool TakeNumber(std::string_view* text, char mark, std::optional<uint64_t>* number) {
  const size_t end = text->find(mark);
  if (end == std::string_view::npos) return true;
  uint64_t value = 0;
  if (!absl::SimpleAtoi(ToAbsl(text->substr(0, end)), &value)) return false;
  *number = value;
  text->remove_prefix(end + 1);
  return true;
}

absl::StatusOr<Term> ParseTerm(const std::string_view whole) {
  Term term;
  std::string_view text = Trim(whole);
  std::optional<uint64_t> percent;
  if (!TakeNumber(&text, '%', &percent) || percent.value_or(100) > 100 ||
      !TakeNumber(&text, '*', &term.hits_left)) {
    return Bad(whole);
  }
  term.percent = static_cast<int>(percent.value_or(100));
  if (text.substr(0, 6) == "sleep(" && text.back() == ')') {
    uint32_t ms = 0;
    if (!absl::SimpleAtoi(ToAbsl(text.substr(6, text.size() - 7)), &ms)) return Bad(whole);
    term.action = Action::kSleep;
    term.sleep = absl::Milliseconds(ms);
    return term;
  }
  if (text == "off") return term;
  if (text == "crash") {
    term.action = Action::kCrash;
  } else if (text == "error") {
    term.action = Action::kError;
  } else if (text == "pause") {
    term.action = Action::kPause;
  } else {
    return Bad(whole);
  }
  return term;
}

absl::StatusOr<std::vector<Term>> ParseChain(std::string_view text) {
  std::vector<Term> chain;
  while (true) {
    const size_t arrow = text.find("->");
    ASSIGN_OR_RETURN(Term term, ParseTerm(text.substr(0, arrow)));
    chain.push_back(term);
    if (arrow == std::string_view::npos) return chain;
    text.remove_prefix(arrow + 2);
  }
}

class Registry {
 public:
  static Registry& Get() {
    static Registry* registry = new Registry;
    return *registry;
  }

  absl::Status SetAll(std::string_view list) {
    std::map<std::string, std::vector<Term>> parsed;
    for (std::string_view item : Split(list, ';')) {
      item = Trim(item);
      if (item.empty()) continue;
      const size_t equals = item.find('=');
      if (equals == std::string_view::npos || equals == 0) {
        return InvalidError(reason::kBadArgument,
                            StrCat("failpoint ", Quoted(item), " is not name=specification"));
      }
      ASSIGN_OR_RETURN(std::vector<Term> chain, ParseChain(item.substr(equals + 1)));
      parsed[std::string(Trim(item.substr(0, equals)))] = std::move(chain);
    }
    for (auto& [name, chain] : parsed) Set(name, std::move(chain));
    return absl::OkStatus();
  }

  void Set(std::string_view name, std::vector<Term> chain) {
    absl::MutexLock lock(&mu_);
    Point& point = points_[std::string(name)];
    point.chain = std::move(chain);
    ++point.version;
  }

  void Clear() {
    absl::MutexLock lock(&mu_);
    for (auto& [name, point] : points_) {
      point.chain.clear();
      point.hits = 0;
      ++point.version;
    }
  }

  uint64_t Hits(std::string_view name) {
    absl::MutexLock lock(&mu_);
    const auto it = points_.find(name);
    return it == points_.end() ? 0 : it->second.hits;
  }

  void WaitForHits(std::string_view name, uint64_t hits) {
    absl::MutexLock lock(&mu_);
    Point& point = points_[std::string(name)];
    const auto reached = [&point, hits] { return point.hits >= hits; };
    mu_.Await(absl::Condition(&reached));
  }

  absl::Status Pass(std::string_view name) {
    Term term;
    {
      absl::MutexLock lock(&mu_);
      const auto it = points_.find(name);
      if (it == points_.end() || it->second.chain.empty()) return absl::OkStatus();
      Point& point = it->second;
      ++point.hits;
      term = Take(&point.chain);
      if (term.action == Action::kPause) {
        const auto changed = [&point, version = point.version] { return point.version != version; };
        mu_.Await(absl::Condition(&changed));
      }
    }
    switch (term.action) {
      case Action::kOff:
      case Action::kPause:
        return absl::OkStatus();
      case Action::kSleep:
        absl::SleepFor(term.sleep);
        return absl::OkStatus();
      case Action::kError:
        return Error(absl::StatusCode::kInternal, reason::kInternal,
                     StrCat("failpoint ", name, " was set to fail"));
      case Action::kCrash:
        kill(getpid(), SIGKILL);
        while (true) pause();  // The signal is on its way.
    }
    return absl::OkStatus();
  }

 private:
  struct Point {
    std::vector<Term> chain;
    uint64_t hits = 0;
    uint64_t version = 0;  // Grows with every change, which is what a paused thread waits for.
  };

  Registry() {
    const char* seed = std::getenv("TANDEM_FAILPOINTS_SEED");
    uint64_t number = 0;
    if (seed != nullptr && absl::SimpleAtoi(seed, &number)) random_.seed(number);
    const char* list = std::getenv("TANDEM_FAILPOINTS");
    if (list != nullptr) CHECK_OK(SetAll(list));
  }

  Term Take(std::vector<Term>* chain) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (Term& term : *chain) {
      if (term.hits_left == 0u) continue;
      if (term.percent < 100 && static_cast<int>(random_() % 100) >= term.percent) return Term();
      if (term.hits_left.has_value()) --*term.hits_left;
      return term;
    }
    return Term();
  }

  absl::Mutex mu_;
  std::map<std::string, Point, std::less<>> points_ ABSL_GUARDED_BY(mu_);
  std::minstd_rand random_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::Status SetFailpoint(std::string_view name, std::string_view specification) {
  ASSIGN_OR_RETURN(std::vector<Term> chain, ParseChain(specification));
  Registry::Get().Set(name, std::move(chain));
  return absl::OkStatus();
}

absl::Status SetFailpoints(std::string_view list) { return Registry::Get().SetAll(list); }

void ClearFailpoints() { Registry::Get().Clear(); }

uint64_t FailpointHits(std::string_view name) { return Registry::Get().Hits(name); }

void WaitForFailpoint(std::string_view name, uint64_t hits) {
  Registry::Get().WaitForHits(name, hits);
}

absl::Status internal::PassFailpoint(std::string_view name) { return Registry::Get().Pass(name); }

}  // namespace tandem
