// Laws of the texts of formulas: what binds how, what each number is, that a text gives itself
// again, and where the mark of each error stands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "score/program/program.hpp"
#include "support/random_program.hpp"
#include "tilefold/error.hpp"

namespace tilefold {
namespace {

using score::Kind;
using score::make_program;
using score::Purpose;
using ::testing::HasSubstr;

const Names& names() {
  static const std::vector<int> ids(64, 1), square(64, 2);
  static const Names all{.tensors = {SideTensor("doc", TensorView(ids.data(), {64})),
                                     SideTensor("ids", TensorView(square.data(), {8, 8}))},
                         .scalars = {Scalar("w", 5), Scalar("x", 0.5)}};
  return all;
}

Purpose purpose_of(const Expression& expression) {
  return expression.node()->kind == Kind::truth ? Purpose::mask : Purpose::score_change;
}
score::ScoreProgram program_of(const Expression& expression) {
  return make_program(expression, purpose_of(expression));
}
score::ScoreProgram program_of(const std::string& text) {
  return program_of(parse_expression(text, names()));
}
bool same(const std::string& a, const std::string& b) {
  const score::ScoreProgram one = program_of(a), other = program_of(b);
  return one.hash() == other.hash() && one.text() == other.text();
}

struct Bracketed {
  const char *text, *meant;
};

TEST(FormulaText, SignsBindAsThePageSays) {
  const Bracketed table[] = {
      {"q < 1 or k < 2 and q < 3", "(q < 1) or ((k < 2) and (q < 3))"},
      {"q < 1 || k < 2 && q < 3", "(q < 1) or ((k < 2) and (q < 3))"},
      {"not q < 1 and k < 2", "(not (q < 1)) and (k < 2)"},
      {"not not q < 1", "q < 1"},
      {"!(q < 1) and k < 2", "(not (q < 1)) and (k < 2)"},
      {"k < 2 and not q < 1 or k < 5", "((k < 2) and (not (q < 1))) or (k < 5)"},
      {"q | k ^ w & 3 == 5", "(q | (k ^ (w & 3))) == 5"},
      {"q & 3 << 2 + w == k", "(q & (3 << (2 + w))) == k"},
      {"q >> 1 << 2 == k", "((q >> 1) << 2) == k"},
      {"q - k - w == 1", "((q - k) - w) == 1"},
      {"q - k * w // 3 % 5 == 1", "(q - (((k * w) // 3) % 5)) == 1"},
      {"q // 2 * 3 == k", "((q // 2) * 3) == k"},
      {"-q * k == -(q * k) + 0 * w", "((-q) * k) == (-(q * k))"},
      {"- - q < k", "q < k"},
      {"+q - +k < 3", "(q - k) < 3"},
      {"-q // 3 < k", "((-q) // 3) < k"},
      {"s / x / 2.0", "(s / x) / 2.0"},
      {"s - x * s / 2.0", "s - ((x * s) / 2.0)"},
      {"s if q < k else x if k < 3 else 0.5", "s if (q < k) else (x if (k < 3) else 0.5)"},
      {"s + 1.0 if q < k or k < 3 else x", "(s + 1.0) if ((q < k) or (k < 3)) else x"},
      {"s if q < k else x", "select(q < k, s, x)"},
      {"0 <= q - k < w", "(0 <= q - k) and (q - k < w)"},
      {"q < k <= w != 3", "(q < k) and (k <= w) and (not (w == 3))"},
      {"q > k >= w", "(k < q) and (w <= k)"},
      {"min(q, k, w) < max(q, 3, k, 9)", "min(min(q, k), w) < max(max(max(q, 3), k), 9)"},
      {"doc[q + off - 1] == ids[b, h]", "(doc[(q + off) - 1]) == (ids[batch, head])"},
      {"offset + Sq == Sk", "off + query_length == key_length"},
      {"score + 1", "s + real(1)"},
      {"q <\n\tk\r", "q < k"},
  };
  for (const Bracketed& row : table)
    EXPECT_TRUE(same(row.text, row.meant)) << row.text << " is " << program_of(row.text).text()
                                           << ", not " << program_of(row.meant).text();
}

TEST(FormulaText, NumbersAreWhatTheySay) {
  const auto node = [](const char* text) { return *parse_expression(text).node(); };
  const std::pair<const char*, int> integers[] = {{"0", 0},
                                                  {"007", 7},
                                                  {"2147483647", 2147483647},
                                                  {"0xff", 255},
                                                  {"0X7FFFFFFF", 2147483647},
                                                  {"-2147483648", -2147483648},
                                                  {"- 3", -3},
                                                  {"-0x80000000", -2147483648}};
  for (const auto& [text, value] : integers) {
    EXPECT_EQ(node(text).op, score::Op::integer) << text;
    EXPECT_EQ(node(text).integer, value) << text;
  }
  const std::pair<const char*, double> reals[] = {
      {"0.5", 0.5},     {".5", 0.5},        {"5.", 5.0},    {"1e3", 1000.0},
      {"1E+3", 1000.0}, {"1.5e-3", 1.5e-3}, {"-2.5", -2.5}, {"3e38", 3e38}};
  for (const auto& [text, value] : reals) {
    EXPECT_EQ(node(text).op, score::Op::real) << text;
    EXPECT_EQ(node(text).real_value, value) << text;
  }
  EXPECT_EQ(node("inf").real_value, HUGE_VAL);
  // A sign between operands is no part of a number.
  EXPECT_TRUE(same("q -1 < k", "q - 1 < k"));
  EXPECT_TRUE(same("0xe+1 < k", "15 < k"));
  EXPECT_TRUE(same("1e1+1 < x", "11.0 < x + 0.0 * x") || same("1e1+1 < x", "1e1 + 1 < x"));
}

/// What is refused, and the column of the mark, counted from 0; -1 for no mark.
struct Refusal {
  std::string text, message;
  int column;
};
Refusal refusal(const std::string& text, const std::function<void(const Expression&)>& then = {}) {
  try {
    const Expression expression = parse_expression(text, names());
    if (then) then(expression);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    std::istringstream lines(error.what());
    std::string message, shown, mark;
    std::getline(lines, message);
    std::getline(lines, shown);
    std::getline(lines, mark);
    if (mark.empty()) return {shown, message, -1};
    EXPECT_EQ(mark.find_first_not_of(' '), mark.find('^'));
    return {shown.substr(2), message, int(mark.find('^')) - 2};
  }
  return {text, "nothing was refused", -1};
}

TEST(FormulaText, TheMarkStandsUnderWhatIsWrong) {
  const Refusal table[] = {
      {"q <= $k", "this character means nothing", 5},
      {"q <= k\x80", "this character means nothing", 6},
      {"q = k", "this character means nothing", 2},
      {"", "expected a number, a name or '('", 0},
      {"q <", "expected a number, a name or '('", 3},
      {"q + * k", "expected a number, a name or '('", 4},
      {"()", "expected a number, a name or '('", 1},
      {"(q + k", "expected ')'", 6},
      {"min(q, k", "expected ')'", 8},
      {"doc[q", "expected ']'", 5},
      {"doc + 1", "expected '['", 4},
      {"q if k < 3", "expected 'else'", 10},
      {"q < k k", "expected an operator or the end", 6},
      {"q < k)", "expected an operator or the end", 5},
      {"w[q]", "expected an operator or the end", 1},
      {"k <= q + oof", "'oof' is no name of this formula: it may be one of q, k, off", 9},
      {"q + and", "'and' is no name of this formula", 4},
      {"k < sqrt(q)", "'sqrt' is no function: it may be one of min, max, abs", 4},
      {"k < min(q)", "min takes 2 or more arguments: here are 1", 4},
      {"k < abs(q, 1)", "abs takes 1 arguments: here are 2", 4},
      {"k < abs()", "abs takes 1 arguments: here are 0", 4},
      {"k < 12ab", "this is no number", 4},
      {"k < 1..2", "this is no number", 4},
      {"k < 0x", "this is no number", 4},
      {"k < 1e+", "this is no number", 4},
      {"k < 0x1p3", "this is no number", 4},
      {"x < 1e999", "too large or too small for a real", 4},
      {"x < 1e39", "beyond 3.4e38", 4},
      {"x < -1e39", "beyond 3.4e38", 5},
      {"k < 2147483648", "integers of a formula have 32 bits", 4},
      {"k < -2147483649", "integers of a formula have 32 bits", 5},
      {"k < 99999999999999999999", "integers of a formula have 32 bits", 4},
      {"q and k < 3", "'and' takes truths: q is an integer; write q != 0", 2},
      {"k < 3 or not w", "truths: w is an integer", 9},
      {"!w", "truths: w is an integer", 0},
      {"q + (k < 3)", "'+' takes numbers: k < 3 is a truth", 2},
      {"-(k < 3)", "'-' takes numbers: k < 3 is a truth", 0},
      {"q % x", "'%' takes integers: x is a real", 2},
      {"q & (k < 3)", "'&' takes integers: k < 3 is a truth", 2},
      {"s < (k < 3)", "numbers: k < 3 is a truth", 2},
      {"q if k else 3", "a truth as its condition: k is an integer", 2},
      {"floor(q)", "a real: q is an integer", 0},
      {"k < 1 == 3 < 4", "nothing was refused", -1},
      {"q // 0", "division by zero: the right side of '//' is 0", 2},
      {"s / 0.0", "division by zero: the right side of '/' is 0", 2},
      {"s / 0", "division by zero: the right side of '/' is 0", 2},
      {"doc[q, k]", "side tensor doc is read at 2 indices", 0},
      {"doc[]", "side tensor doc is read at 0 indices", 0},
      {"k < 3 and doc[x] == 1", "an index of side tensor doc must be an integer: x is a real", 10},
  };
  for (const Refusal& row : table) {
    const Refusal got = refusal(row.text);
    EXPECT_THAT(got.message, HasSubstr(row.message)) << row.text;
    EXPECT_EQ(got.column, row.column) << row.text << "\n" << got.message;
  }
}

TEST(FormulaText, LongTextsAreShownAroundTheMark) {
  std::string text = "q < 1";
  for (int i = 0; i < 60; ++i) text += " and k != 7";
  for (const std::size_t at : {0, 20, 300, 640}) {
    std::string wrong = text;
    wrong.insert(at == 0 ? 0 : wrong.find(" and", at) + 5, "$");
    const Refusal got = refusal(wrong);
    ASSERT_GE(got.column, 0);
    EXPECT_EQ(got.text[std::size_t(got.column)], '$') << got.text;
    EXPECT_LE(got.text.size(), 78u);
    EXPECT_EQ(got.text.ends_with("..."), at < 640);
    EXPECT_EQ(got.text.starts_with("..."), at >= 300);
  }
  // Operands of a message are cut, too.
  EXPECT_LE(refusal("(" + text + ") + 1").message.size(), 120u);
}

TEST(FormulaText, LimitsAreRefused) {
  EXPECT_THAT(refusal(std::string(16385, ' ')).message, HasSubstr("16385 characters: at most"));
  EXPECT_EQ(refusal("q" + std::string(16383, ' ')).message, "nothing was refused");
  const auto nested = [](const std::string& open, int times, const std::string& middle,
                         const std::string& close) {
    std::string text;
    for (int i = 0; i < times; ++i) text += open;
    text += middle;
    for (int i = 0; i < times; ++i) text += close;
    return refusal(text).message;
  };
  const Bracketed each[] = {{"(", ")"},
                            {"-", ""},
                            {"! ", ""},
                            {"not ", ""},
                            {"doc[", "]"},
                            {"abs(", ")"},
                            {"1 if q < k else ", ""}};
  for (const Bracketed& one : each) {
    const bool truth = one.text[0] == '!' || one.text[0] == 'n';
    const char* middle = truth ? "true" : "q";
    EXPECT_EQ(nested(one.text, 100, middle, one.meant), "nothing was refused") << one.text;
    EXPECT_EQ(nested(one.text, 101, middle, one.meant), "the formula nests deeper than 100 levels")
        << one.text;
  }
  EXPECT_THAT(nested("q + ", 250, "k", ""), HasSubstr("nests deeper than 200 operations"));
}

TEST(FormulaText, ChainsAreReadBackWithoutBrackets) {
  // As many operations as a formula may hold one inside the other; brackets would nest too deep.
  const auto chain = [](const std::string& sign, const char* first, const char* next) {
    std::string text = first;
    for (int i = 0; i < 150; ++i) text += sign + next + std::to_string(i + 3);
    return text;
  };
  std::string least = "min(q, k", largest = "max(x, s";
  for (int i = 0; i < 150; ++i) {
    least += ", w * " + std::to_string(i + 2);
    largest += ", x * " + std::to_string(i + 2);
  }
  const std::string texts[] = {chain(" and ", "q < 1", "k != "),
                               chain(" or ", "q < 1", "k * k < "),
                               chain(" | ", "q", "k * ") + " < 0",
                               chain(" + ", "s", "x * "),
                               chain(" * ", "s", "x + "),
                               chain(" ^ ", "q", "k & ") + " < 3",
                               least + ") < 5",
                               largest + ")"};
  for (const std::string& text : texts) {
    const Expression expression = parse_expression(text, names());
    const score::ScoreProgram program = program_of(expression);
    for (const std::string& written : {expression.text(), program.text()}) {
      const Refusal got = refusal(written);
      EXPECT_EQ(got.message, "nothing was refused") << written;
      if (got.column < 0) {
        EXPECT_TRUE(same(text, written)) << text << "\n" << written;
      }
    }
  }
}

TEST(FormulaText, NegationsAreReadBack) {
  for (const char* text :
       {"q % 3 != k % 3", "not (x < real(q))", "not (x < real(q)) and k % 3 != 1",
        "k % 3 != 1 or not (k % 5 == 2 and x < 1.0)", "not (q < k or k * k == 3)",
        "!(q * q < 3) and (not (k & 1 == 1))", "(q & 1 == 1) == (k & 1 == 1)",
        "(q < k if x < 1.0 else k != 3) and x != 0.25"}) {
    EXPECT_TRUE(same(text, program_of(text).text())) << program_of(text).text();
    EXPECT_TRUE(same(text, parse_expression(text, names()).text())) << text;
  }
  EXPECT_EQ(program_of("q % 3 != k % 3").text().find("not"), std::string::npos);
}

TEST(FormulaText, ADivisorThatIsAlwaysZeroIsRefused) {
  const auto message = [](const char* text) {
    return refusal(text, [](const Expression& e) { (void)program_of(e); }).message;
  };
  for (const char* text : {"q // (k - k) < 3", "q % (3 - 3) < 3", "s / (q - q)", "5 // (2 - 2) < q",
                           "s / -0.0", "s / (0 * k)"})
    EXPECT_THAT(message(text), HasSubstr("division by zero")) << text;
  EXPECT_EQ(message("q // (k - w) < 3"), "nothing was refused");
}

TEST(FormulaText, RealConstantsAreComparedInTheScoresOwnType) {
  // Alike as float32, apart as float64.
  const ScoreChange change = parse_score("s if 0.1 == 0.1000000001 else 2 * s");
  const score::Place at{0, 0, 0, 1, 1, 0};
  float single = 3;
  double wide = 3;
  change.node()->change({0, 1, 1, 0, 1, 1, at}, &single, 1);
  change.node()->change({0, 1, 1, 0, 1, 1, at}, &wide, 1);
  EXPECT_EQ(single, 3);
  EXPECT_EQ(wide, 6);
}

TEST(FormulaText, NamesStandForOneThing) {
  const std::vector<int> ids(8, 0);
  const TensorView view(ids.data(), {8});
  const auto message = [](const std::function<void()>& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  };
  for (const char* word : {"q", "off", "head", "inf", "true", "if", "not", "key_length"}) {
    EXPECT_THAT(message([&] { (void)Scalar(word, 1); }), HasSubstr("formulas mean something else"));
    EXPECT_THAT(message([&] { (void)SideTensor(word, view); }),
                HasSubstr("formulas mean something else"));
  }
  // Second names of symbols, and functions, are free.
  const Names own{.tensors = {SideTensor("min", view)}, .scalars = {Scalar("h", 3)}};
  EXPECT_EQ(parse_mask("min[k] < min(h, q)", own).text(),
            parse_mask(parse_mask("min[k] < min(h, q)", own).text(), own).text());
  const SideTensor doc("doc", view);
  EXPECT_EQ(message([&] {
              (void)parse_mask("doc[k] < 1", {.tensors = {doc, doc}});
            }),
            "nothing was refused");
  EXPECT_THAT(message([&] {
                (void)parse_mask("doc[k] < 1", {.tensors = {doc, SideTensor("doc", view)}});
              }),
              HasSubstr("two names of the formula are doc"));
  EXPECT_THAT(message([&] {
                (void)parse_mask("q < 1", {.tensors = {doc}, .scalars = {Scalar("doc", 1)}});
              }),
              HasSubstr("two names of the formula are doc"));
  EXPECT_THAT(message([&] { (void)mask(doc[symbols::k] < Scalar("doc", 1)); }),
              HasSubstr("a scalar and a side tensor of the formula are called doc"));
}

TEST(FormulaText, DrawnFormulasAreReadBack) {
  for (int seed = 0; seed < 1000; ++seed) {
    testing::Random random(static_cast<std::uint64_t>(seed));
    const testing::FormulaMaterial material(random, 2, 4, 9, 9);
    const Kind kind = random.chance(0.5) ? Kind::truth : Kind::real;
    const Expression drawn = testing::draw({random, material.names(), kind == Kind::real}, kind, 7);
    const score::ScoreProgram program = program_of(drawn);
    for (const std::string& text : {drawn.text(), program.text()}) {
      const score::ScoreProgram again = program_of(parse_expression(text, material.names()));
      ASSERT_EQ(again.hash(), program.hash()) << text;
      ASSERT_EQ(again.text(), program.text()) << text;
    }
  }
}

}  // namespace
}  // namespace tilefold
