#include "lexer.h"

#include <cctype>
#include <stdexcept>

#include "ptx.h"

namespace gates_cpu {
namespace {

bool starts_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.'; }
bool in_word(char c) { return starts_word(c) || std::isdigit(static_cast<unsigned char>(c)); }

}  // namespace

std::vector<Token> tokens(std::string_view text) {
    std::vector<Token> found;
    found.reserve(text.size() / 4);
    int line = 1;
    for (std::size_t at = 0; at < text.size();) {
        const char c = text[at];
        std::size_t end = at + 1;
        if (c == '\n' || std::isspace(static_cast<unsigned char>(c))) {
            line += c == '\n';
        } else if (c == '/' && end < text.size() && text[end] == '/') {
            while (end < text.size() && text[end] != '\n') ++end;
        } else if (c == '/' && end < text.size() && text[end] == '*') {
            end = text.find("*/", at);
            if (end == std::string_view::npos) throw Unsupported("PTX line " + std::to_string(line) + ": a comment does not end");
            for (std::size_t i = at; i < end; ++i) line += text[i] == '\n';
            end += 2;
        } else if (c == '"') {
            while (end < text.size() && text[end] != '"') ++end;
            found.push_back({Token::String, text.substr(at + 1, end - at - 1), line});
            ++end;
        } else if (starts_word(c)) {
            while (end < text.size() && (in_word(text[end]) || text.substr(end, 2) == "::")) end += text[end] == ':' ? 2 : 1;
            found.push_back({Token::Word, text.substr(at, end - at), line});
        } else if (std::isdigit(static_cast<unsigned char>(c))) {
            while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '.')) ++end;
            found.push_back({Token::Number, text.substr(at, end - at), line});
        } else {
            found.push_back({Token::Sign, text.substr(at, 1), line});
        }
        at = end;
    }
    found.push_back({Token::End, {}, line});
    return found;
}

}  // namespace gates_cpu
