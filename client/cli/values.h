// Elements of outputs for people and for programs.
//
// Thread-safety: pure functions.
#ifndef TANDEM_CLIENT_CLI_VALUES_H_
#define TANDEM_CLIENT_CLI_VALUES_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "common/model/dtype.h"

namespace tandem::cli {

// Packed elements as a JSON array: numbers, booleans, and texts for what JSON has no number for
// ("nan", "inf").
nlohmann::ordered_json ValuesOf(DType dtype, std::string_view bytes);
// "3.5", or "[1, 2]".
std::string ValueText(const nlohmann::ordered_json& value);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_VALUES_H_
