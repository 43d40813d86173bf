// Formulas from text. A recursive descent over the table of signs in operation.hpp:
//
//   formula  := choice                      (the whole text)
//   choice   := binary [ 'if' binary 'else' choice ]
//   binary   := unary { sign unary }        signs bind as operation_rows says
//   compared := 'not' compared | binary { '<' binary }       a < b <= c is a < b and b <= c
//   unary    := ('-' | '+' | '!') unary | primary
//   primary  := number | name | name '[' list ']' | function '(' list ')' | '(' choice ')'
#include <charconv>
#include <cmath>

#include "score/program/expression_node.hpp"
#include "score/program/side_tensor_state.hpp"
#include "tilefold/error.hpp"

namespace tilefold {

namespace score {

Expression entry(const SideTensor& tensor, std::vector<Expression> indices);

namespace {

// Of ASCII, whatever the locale of the process.
constexpr bool is_digit(int c) { return c >= '0' && c <= '9'; }
constexpr bool is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
constexpr bool is_letter(int c) { return ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_'; }

constexpr std::size_t max_text = 16384;
constexpr int max_nesting = 100;

struct Token {
  enum class Kind { end, number, word, sign };
  Kind kind;
  std::string_view text;
  std::size_t at;
};

[[noreturn]] void refuse_at(std::string_view text, std::size_t at, const std::string& why) {
  // What stands around the place, on one line of a terminal, and a mark under it. Controls are
  // shown as spaces.
  constexpr std::size_t width = 72;
  std::size_t first = 0, last = text.size();
  if (last > width) {
    first = at > width / 2 ? at - width / 2 : 0;
    last = first + width < last ? first + width : last;
  }
  const std::string before = first > 0 ? "..." : "";
  std::string shown = before;
  for (const char c : text.substr(first, last - first)) shown += c >= ' ' && c <= '~' ? c : ' ';
  if (last < text.size()) shown += "...";
  throw Error(ErrorCode::invalid_argument,
              why + "\n  " + shown + "\n  " + std::string(before.size() + at - first, ' ') + "^");
}

/// Longest first, where one begins another.
constexpr std::string_view signs[] = {"//", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||",
                                      "+",  "-",  "*",  "/",  "%",  "<",  ">",  "!",  "&",
                                      "|",  "^",  "(",  ")",  "[",  "]",  ","};

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  const auto at = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const auto is_word = [&](std::size_t i) { return is_letter(at(i)) || is_digit(at(i)); };
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    if (is_space(at(i))) {
      ++i;
      continue;
    }
    if (is_digit(at(i)) || (at(i) == '.' && is_digit(at(i + 1)))) {
      while (is_word(end) || at(end) == '.' ||
             ((at(end) == '+' || at(end) == '-') && end > i && (at(end - 1) | 32) == 'e' &&
              (at(i) != '0' || (at(i + 1) | 32) != 'x')))
        ++end;
      tokens.push_back({Token::Kind::number, text.substr(i, end - i), i});
    } else if (is_word(i)) {
      while (is_word(end)) ++end;
      tokens.push_back({Token::Kind::word, text.substr(i, end - i), i});
    } else {
      for (const std::string_view sign : signs)
        if (text.substr(i, sign.size()) == sign) {
          end = i + sign.size();
          break;
        }
      if (end == i) refuse_at(text, i, "this character means nothing in a formula");
      tokens.push_back({Token::Kind::sign, text.substr(i, end - i), i});
    }
    i = end;
  }
  tokens.push_back({Token::Kind::end, {}, text.size()});
  return tokens;
}

class Parser {
 public:
  Parser(std::string_view text, const Names& names)
      : text_(text), names_(names), tokens_(tokens_of(text)) {}

  Expression whole() {
    Expression result = choice();
    if (token().kind != Token::Kind::end) refuse("expected an operator or the end of the formula");
    return result;
  }

 private:
  const Token& token() const { return tokens_[next_]; }
  bool is(std::string_view text) const {
    return token().kind != Token::Kind::end && token().kind != Token::Kind::number &&
           token().text == text;
  }
  bool accept(std::string_view text) {
    if (!is(text)) return false;
    ++next_;
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text)) refuse("expected '" + std::string(text) + "'");
  }
  [[noreturn]] void refuse(const std::string& why) const { refuse_at(text_, token().at, why); }

  /// An operation that refuses its operands points at `at`.
  template <class Make> Expression at(std::size_t at, const Make& make) const {
    try {
      return make();
    } catch (const Error& error) {
      refuse_at(text_, at, error.what());
    }
  }

  /// A level of brackets, signs, `not` or `else`: what the parser recurses into.
  struct Nested {
    Parser& parser;
    explicit Nested(Parser& p) : parser(p) {
      if (++parser.nesting_ > max_nesting)
        parser.refuse("the formula nests deeper than " + std::to_string(max_nesting) + " levels");
    }
    ~Nested() { --parser.nesting_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
  };

  Expression choice();
  Expression binary(int least);
  Expression compared();
  Expression unary();
  Expression primary();
  enum class Sign { plus, minus };
  Expression number(Sign sign);
  Expression named(const Token& name);
  Expression function(const Token& name);
  std::vector<Expression> list(std::string_view close);

  std::string_view text_;
  const Names& names_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  int nesting_ = 0;
};

constexpr int comparison_binding = row_of(Op::less).binding;
constexpr int tightest_binary = row_of(Op::multiply).binding;

/// `a if condition else b`.
Expression Parser::choice() {
  Expression value = binary(1);
  const std::size_t where = token().at;
  if (!accept("if")) return value;
  Expression condition = binary(1);
  expect("else");
  const Nested nested(*this);
  const Expression other = choice();
  return at(where, [&] { return select(condition, value, other); });
}

/// The operation that the next token is between operands, of this binding; null where it is none.
const OperationRow* sign_row(std::string_view sign, int binding) {
  const std::string_view known = sign == "&&" ? "and" : sign == "||" ? "or" : sign;
  for (const OperationRow& row : operation_rows)
    if (row.sign != nullptr && row.operands == 2 && row.binding == binding && known == row.sign)
      return &row;
  return nullptr;
}

Expression Parser::binary(int least) {
  if (least > tightest_binary) return unary();
  if (least == comparison_binding) return compared();
  Expression left = binary(least + 1);
  for (;;) {
    const OperationRow* row =
        token().kind == Token::Kind::end ? nullptr : sign_row(token().text, least);
    if (row == nullptr) return left;
    const std::size_t where = token().at;
    ++next_;
    const Expression right = binary(least + 1);
    left = at(where, [&] { return apply(row->op, {left, right}); });
  }
}

Expression Parser::compared() {
  const Token first = token();
  if (accept("not")) {
    const Nested nested(*this);
    const Expression inner = compared();
    return at(first.at, [&] { return !inner; });
  }
  Expression left = binary(comparison_binding + 1);
  Expression result = true;
  bool any = false;
  for (;;) {
    const Token sign = token();
    Expression (*compare)(const Expression&, const Expression&) = nullptr;
    if (is("<")) compare = [](const Expression& a, const Expression& b) { return a < b; };
    if (is("<=")) compare = [](const Expression& a, const Expression& b) { return a <= b; };
    if (is(">")) compare = [](const Expression& a, const Expression& b) { return a > b; };
    if (is(">=")) compare = [](const Expression& a, const Expression& b) { return a >= b; };
    if (is("==")) compare = [](const Expression& a, const Expression& b) { return a == b; };
    if (is("!=")) compare = [](const Expression& a, const Expression& b) { return a != b; };
    if (compare == nullptr) return any ? result : left;
    ++next_;
    const Expression right = binary(comparison_binding + 1);
    const Expression one = at(sign.at, [&] { return compare(left, right); });
    result = any ? result && one : one;
    any = true;
    left = right;
  }
}

Expression Parser::unary() {
  const Token sign = token();
  if (!is("-") && !is("+") && !is("!")) return primary();
  ++next_;
  // A number keeps its sign: the least integer has no positive twin.
  if (sign.text == "-" && token().kind == Token::Kind::number) return number(Sign::minus);
  const Nested nested(*this);
  Expression inner = unary();
  if (sign.text == "+") return inner;
  return at(sign.at, [&] { return sign.text == "-" ? -inner : !inner; });
}

Expression Parser::number(Sign sign) {
  const Token token = tokens_[next_++];
  const bool negative = sign == Sign::minus;
  if (const std::optional<long long> size = whole_number(token.text)) {
    const long long whole = negative ? -*size : *size;
    if (whole < -2147483647LL - 1 || whole > 2147483647LL)
      refuse_at(text_, token.at, "integers of a formula have 32 bits");
    return Expression(int(whole));
  }
  const char *first = token.text.data(), *last = first + token.text.size();
  double real = 0;
  const auto as_real = std::from_chars(first, last, real);
  if (as_real.ptr != last) refuse_at(text_, token.at, "this is no number");
  if (as_real.ec != std::errc())
    refuse_at(text_, token.at, "this number is too large or too small for a real of 64 bits");
  return at(token.at, [&] { return Expression(negative ? -real : real); });
}

std::vector<Expression> Parser::list(std::string_view close) {
  std::vector<Expression> all;
  if (accept(close)) return all;
  const Nested nested(*this);
  do all.push_back(choice());
  while (accept(","));
  expect(close);
  return all;
}

Expression Parser::primary() {
  const Token first = token();
  if (first.kind == Token::Kind::number) return number(Sign::plus);
  if (accept("(")) {
    const Nested nested(*this);
    Expression inner = choice();
    expect(")");
    return inner;
  }
  if (first.kind != Token::Kind::word) refuse("expected a number, a name or '('");
  ++next_;
  return is("(") ? function(first) : named(first);
}

struct SymbolName {
  std::string_view name;
  Symbol symbol;
};
constexpr SymbolName symbol_names[] = {{"q", Symbol::query},
                                       {"k", Symbol::key},
                                       {"off", Symbol::offset},
                                       {"offset", Symbol::offset},
                                       {"s", Symbol::score},
                                       {"score", Symbol::score},
                                       {"b", Symbol::batch},
                                       {"batch", Symbol::batch},
                                       {"h", Symbol::query_head},
                                       {"head", Symbol::query_head},
                                       {"kv_head", Symbol::kv_head},
                                       {"Sq", Symbol::query_length},
                                       {"Sk", Symbol::key_length},
                                       {"query_length", Symbol::query_length},
                                       {"key_length", Symbol::key_length}};

/// What texts of formulas say by themselves. The other forms of symbols (Sq, h, ...) are the
/// caller's to take.
constexpr std::string_view reserved_words[] = {
    "q",          "k",   "off",  "s",     "batch", "head",  "kv_head", "query_length",
    "key_length", "inf", "true", "false", "True",  "False", "if",      "else",
    "and",        "or",  "not"};

/// What a name stands for: the caller's own first.
Expression Parser::named(const Token& name) {
  for (const SideTensor& tensor : names_.tensors)
    if (tensor.name() == name.text) {
      expect("[");
      std::vector<Expression> indices = list("]");
      return at(name.at, [&] { return entry(tensor, std::move(indices)); });
    }
  for (const Scalar& scalar : names_.scalars)
    if (scalar.name() == name.text) return scalar;
  for (const SymbolName& known : symbol_names)
    if (known.name == name.text) return symbol(known.symbol);
  if (name.text == "true" || name.text == "True") return true;
  if (name.text == "false" || name.text == "False") return false;
  if (name.text == "inf") return Expression(HUGE_VAL);
  std::string known =
      "q, k, off, s (of scores), batch, head, kv_head, query_length, key_length, inf, true, false";
  for (const SideTensor& tensor : names_.tensors) known += ", " + tensor.name() + "[...]";
  for (const Scalar& scalar : names_.scalars) known += ", " + scalar.name();
  refuse_at(text_, name.at,
            "'" + std::string(name.text) + "' is no name of this formula: it may be " + "one of " +
                known);
}

Expression Parser::function(const Token& name) {
  expect("(");
  const std::vector<Expression> given = list(")");
  const OperationRow* row = nullptr;
  for (const OperationRow& each : operation_rows)
    if (each.word != nullptr && name.text == each.word) row = &each;
  if (row == nullptr) {
    std::string known;
    for (const OperationRow& each : operation_rows)
      if (each.word != nullptr) known += (known.empty() ? "" : ", ") + std::string(each.word);
    refuse_at(text_, name.at,
              "'" + std::string(name.text) + "' is no function: it may be one of " + known);
  }
  const bool folds = row->op == Op::minimum || row->op == Op::maximum;  // of any number
  if (folds ? given.size() < 2 : int(given.size()) != row->operands)
    refuse_at(text_, name.at,
              std::string(row->word) + " takes " +
                  (folds ? "2 or more" : std::to_string(row->operands)) + " arguments: here are " +
                  std::to_string(given.size()));
  if (row->op == Op::real_of) return at(name.at, [&] { return real(given[0]); });
  if (!folds) return at(name.at, [&] { return apply(row->op, given); });
  Expression result = given[0];
  for (std::size_t i = 1; i < given.size(); ++i)
    result = at(name.at, [&] { return apply(row->op, {result, given[i]}); });
  return result;
}

/// A text must not depend on the order in which names are listed.
void require_distinct(const Names& names) {
  const auto refuse = [](const std::string& name) {
    throw Error(ErrorCode::invalid_argument, "two names of the formula are " + name);
  };
  for (std::size_t i = 0; i < names.tensors.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      if (names.tensors[i].name() == names.tensors[j].name() &&
          names.tensors[i].state() != names.tensors[j].state())
        refuse(names.tensors[i].name());
    for (const Scalar& scalar : names.scalars)
      if (scalar.name() == names.tensors[i].name()) refuse(scalar.name());
  }
  for (std::size_t i = 0; i < names.scalars.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (names.scalars[i].name() == names.scalars[j].name() &&
          names.scalars[i].state() != names.scalars[j].state())
        refuse(names.scalars[i].name());
}

}  // namespace

std::optional<long long> whole_number(std::string_view text) {
  if (text.empty() || !is_digit(text[0])) return std::nullopt;
  const bool hex = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  const char *const first = text.data() + (hex ? 2 : 0), *const last = text.data() + text.size();
  if (*first == '-') return std::nullopt;
  long long whole = 0;
  const auto [rest, error] = std::from_chars(first, last, whole, hex ? 16 : 10);
  if (rest != last) return std::nullopt;
  return error == std::errc() ? whole : 1LL << 40;
}

bool is_reserved(std::string_view name) {
  for (const std::string_view word : reserved_words)
    if (name == word) return true;
  return false;
}

}  // namespace score

Expression parse_expression(std::string_view text, const Names& names) {
  if (text.size() > score::max_text)
    throw Error(ErrorCode::invalid_argument, "the formula has " + std::to_string(text.size()) +
                                                 " characters: at most " +
                                                 std::to_string(score::max_text));
  score::require_distinct(names);
  return score::Parser(text, names).whole();
}
Mask parse_mask(std::string_view text, const Names& names) {
  return mask(parse_expression(text, names));
}
ScoreChange parse_score(std::string_view text, const Names& names) {
  return change(parse_expression(text, names));
}

}  // namespace tilefold
