#include "score/code_source.hpp"

#include <cstring>
#include <utility>

namespace tilefold::score {

namespace {

using Code = std::shared_ptr<const CodeSource>;

/// A functor of the library: its own bytes, and the name of its type.
template <class Functor> class BuiltIn final : public CodeSource {
 public:
  BuiltIn(const char* type, Functor functor) : type_(type), functor_(functor) {}
  FormulaCode code() const override {
    return {{}, std::string("::tilefold::score::") + type_, sizeof(Functor), alignof(Functor)};
  }
  void write_arguments(void* bytes, const DeviceCopies& tensors) const override {
    Functor copy = functor_;
    visit_side_tensors(copy, tensors);
    std::memcpy(bytes, &copy, sizeof copy);
  }

 private:
  const char* type_;
  Functor functor_;
};
template <class Functor> Code built_in(const char* type, Functor functor) {
  return std::make_shared<BuiltIn<Functor>>(type, functor);
}

std::size_t rounded_up(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// And, Or and Chain: two members, one behind the other.
class Pair final : public CodeSource {
 public:
  Pair(const char* join, Code first, Code second)
      : join_(join), first_(std::move(first)), second_(std::move(second)) {}
  FormulaCode code() const override {
    const FormulaCode a = first_->code(), b = second_->code();
    const std::size_t alignment = larger(a.alignment, b.alignment);
    std::string text = scoped("first", a) + scoped("second", b);
    text += "#line 1 \"joined\"\nusing Joined = ::tilefold::score::" + std::string(join_) + "<" +
            named("first", a) + ", " + named("second", b) + ">;\n";
    return {text,
            "Joined",
            rounded_up(rounded_up(a.size, b.alignment) + b.size, alignment),
            alignment,
            larger(a.query_block, b.query_block),
            a.operations + b.operations};
  }
  void write_arguments(void* bytes, const DeviceCopies& tensors) const override {
    const std::size_t second_at = rounded_up(first_->code().size, second_->code().alignment);
    first_->write_arguments(bytes, tensors);
    second_->write_arguments(static_cast<unsigned char*>(bytes) + second_at, tensors);
  }

  /// The definitions in a namespace, their lines counted from 1.
  static std::string scoped(const char* space, const FormulaCode& code) {
    if (code.definitions.empty()) return {};
    return std::string("namespace ") + space + " {\n#line 1\n" + code.definitions + "\n}\n";
  }
  static std::string named(const char* space, const FormulaCode& code) {
    return code.definitions.empty() ? code.type : std::string(space) + "::" + code.type;
  }

 private:
  const char* join_;
  Code first_, second_;
};

class Negated final : public CodeSource {
 public:
  explicit Negated(Code inner) : inner_(std::move(inner)) {}
  FormulaCode code() const override {
    FormulaCode code = inner_->code();
    const std::string type = Pair::named("negated", code);
    code.definitions = Pair::scoped("negated", code) +
                       "#line 1 \"joined\"\nusing Joined = ::tilefold::score::Not<" + type + ">;\n";
    code.type = "Joined";
    return code;
  }
  void write_arguments(void* bytes, const DeviceCopies& tensors) const override {
    inner_->write_arguments(bytes, tensors);
  }

 private:
  Code inner_;
};

/// A node that is a CodeSource itself, and is kept alive by whoever holds the formula.
template <class Node> Code own_code(const Node* node) {
  const auto* source = dynamic_cast<const CodeSource*>(node);
  return source == nullptr ? nullptr : Code(Code(), source);
}

Code joined(const char* join, Code first, Code second) {
  if (first == nullptr || second == nullptr) return nullptr;
  return std::make_shared<Pair>(join, std::move(first), std::move(second));
}

}  // namespace

Code code_of(const MaskNode* mask) {
  using Kind = MaskDescription::Kind;
  if (mask == nullptr) return built_in("Everything", Everything{});
  if (Code own = own_code(mask)) return own;
  const MaskDescription d = mask->describe();
  switch (d.kind) {
    case Kind::everything: return built_in("Everything", Everything{});
    case Kind::causal: return built_in("Causal", Causal{});
    case Kind::window: return built_in("Window", Window{d.left, d.right});
    case Kind::prefix: return built_in("Prefix", Prefix{*d.lookup});
    case Kind::document: return built_in("Document", Document{*d.lookup});
    case Kind::both: return joined("And", code_of(d.first), code_of(d.second));
    case Kind::either: return joined("Or", code_of(d.first), code_of(d.second));
    case Kind::negated:
      if (Code inner = code_of(d.first)) return std::make_shared<Negated>(std::move(inner));
      return nullptr;
    case Kind::code: return nullptr;
  }
  return nullptr;
}

Code code_of(const ScoreNode* change) {
  using Kind = ScoreDescription::Kind;
  if (change == nullptr) return built_in("Unchanged", Unchanged{});
  if (Code own = own_code(change)) return own;
  const ScoreDescription d = change->describe();
  switch (d.kind) {
    case Kind::softcap: return built_in("SoftCap", SoftCap{d.cap});
    case Kind::alibi: {
      const TensorView& slopes = *d.tensor;
      return built_in("Alibi",
                      Alibi{slopes.as<float>(), slopes.rank() == 2 ? slopes.stride(0) : 0});
    }
    case Kind::bias: return nullptr;  // kernels read past its last row and key
    case Kind::chain: return joined("Chain", code_of(d.first), code_of(d.second));
    case Kind::code: return nullptr;
  }
  return nullptr;
}

bool has_code(const MaskNode* mask) {
  if (mask == nullptr) return false;
  if (dynamic_cast<const CodeSource*>(mask) != nullptr) return true;
  const MaskDescription d = mask->describe();
  return has_code(d.first) || has_code(d.second);
}

bool has_code(const ScoreNode* change) {
  if (change == nullptr) return false;
  if (dynamic_cast<const CodeSource*>(change) != nullptr) return true;
  const ScoreDescription d = change->describe();
  return has_code(d.first) || has_code(d.second);
}

}  // namespace tilefold::score
