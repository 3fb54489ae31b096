// PTX text to tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gates_cpu {

struct Token {
    enum Kind : unsigned char { Word, Number, String, Sign, End } kind = End;
    std::string_view text;  // of the module's text
    int line = 0;
};

std::vector<Token> tokens(std::string_view text);

}  // namespace gates_cpu
