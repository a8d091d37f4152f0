#include "mgmt/control/configuration_lines.hpp"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "mgmt/control/desired_state.hpp"
#include "mgmt/control/https_client.hpp"

namespace lockstep::mgmt {
namespace {

std::string of_volume(const Volume& v, const Configuration& kept, NodeSide here, const std::filesystem::path& folder) {
  const Volume* theirs = kept.volume(v.id);
  const bool has_copy = v.lifecycle == Lifecycle::ready && !v.copy(here).unmade;
  if (!theirs && has_copy) {
    const auto files = replica_files(folder, v.id, v.copy(here));
    return fmt::format(
        "Volume {} ({} bytes) is in the other configuration not: it goes out of service, its hosts lose it: stop them "
        "first. Its data "
        "stays on this node and is removed by nobody: {}{}",
        v.name, v.size, files.data,
        v.encrypted ? ", encrypted, so that it can't be read without the volume. Copy what is needed of it elsewhere "
                      "before you give up."
                    : ", which holds the disk's blocks as they are. To have them again, make a volume of that size and "
                      "copy that file into it.");
  }
  if (!theirs) return fmt::format("Volume {} is not in the other configuration.", v.name);
  if (v.lifecycle == Lifecycle::deleting && theirs->lifecycle == Lifecycle::ready)
    return fmt::format("Volume {}, which was deleted here, is there again, with what the other node has of it.",
                       v.name);
  if (theirs->lifecycle == Lifecycle::deleting && has_copy)
    return fmt::format(
        "Volume {} was deleted on the other node: the copy here is removed, with all that was written to "
        "it since.",
        v.name);
  std::string what;
  const auto add = [&what](const std::string& words) { what += (what.empty() ? "" : ", ") + words; };
  if (theirs->name != v.name) add(fmt::format("is called {}", theirs->name));
  if (theirs->size != v.size) add(fmt::format("has {} bytes instead of {}", theirs->size, v.size));
  if (theirs->access != v.access || theirs->any_initiator != v.any_initiator) add("lets in other initiators");
  if (theirs->read_only != v.read_only) add(theirs->read_only ? "is read-only" : "may be written");
  if (theirs->write_cache != v.write_cache)
    add(fmt::format("has its write cache {}", theirs->write_cache ? "on" : "off"));
  return what.empty() ? "" : fmt::format("Volume {} {} in the other configuration.", v.name, what);
}

template <class List, class Find>
void add_others(std::vector<std::string>& lost, const List& mine, const char* kind, const Find& find) {
  for (const auto& one : mine) {
    const auto [name, there] = find(one);
    if (!there)
      lost.push_back(fmt::format("{} {} is not in the other configuration.", kind, name));
    else if (*there != one)
      lost.push_back(fmt::format("{} {} is different in the other configuration.", kind, name));
  }
}

template <class List, class Key, class Value>
auto found(const List& list, Key key, const Value& value) -> decltype(&*list.begin()) {
  const auto at = std::ranges::find(list, value, key);
  return at == list.end() ? nullptr : &*at;
}

std::string joined(const std::vector<std::string>& sentences) { return fmt::format("{}", fmt::join(sentences, " ")); }

}  // namespace

std::vector<std::string> lost_with(const Configuration& given_up, const Configuration& kept, NodeSide here,
                                   const std::filesystem::path& folder) {
  std::vector<std::string> lost;
  for (const auto& v : given_up.volumes)
    if (auto sentence = of_volume(v, kept, here, folder); !sentence.empty()) lost.push_back(std::move(sentence));
  add_others(lost, given_up.initiators, "Initiator",
             [&](const Initiator& i) { return std::pair(i.iqn, found(kept.initiators, &Initiator::iqn, i.iqn)); });
  add_others(lost, given_up.tokens, "Token",
             [&](const Token& t) { return std::pair(t.name, found(kept.tokens, &Token::id, t.id)); });
  for (const auto& t : kept.tokens)
    if (!found(given_up.tokens, &Token::id, t.id))
      lost.push_back(fmt::format("Token {}, which is not valid here, is valid again.", t.name));
  for (const auto& v : kept.volumes)
    if (!given_up.volume(v.id) && v.lifecycle == Lifecycle::ready)
      lost.push_back(fmt::format("Volume {}, which is not in this configuration, is there again.", v.name));
  if (given_up.pair && kept.pair && *given_up.pair != *kept.pair)
    lost.emplace_back("The pair's own settings are different in the other configuration.");
  return lost;
}

Outcome<void> ConfigurationOperator::check_in_pair_of_two() const {
  const auto configuration = core_.configuration();
  if (!configuration->pair || !core_.side()) return refuse(RefusalKind::no_pair, "Make a pair or join one first.");
  if (core_.replaced.replaced_here_ms() != 0 || core_.forgets_pair())
    return refuse(RefusalKind::conflict, "This machine is not in the pair any more. Ask one of the pair's nodes.");
  if (configuration->nodes.size() < 2)
    return refuse(RefusalKind::conflict, "The pair has one node, which decides alone anyway.");
  return {};
}

Outcome<ConfigurationLines> ConfigurationOperator::lines(const std::string& why_not_asked) {
  const auto side = core_.side();
  if (!side) return refuse(RefusalKind::no_pair, "Make a pair or join one first.");
  ConfigurationLines lines;
  lines.here = {*side, core_.revisions.state(), core_.configuration()};
  const auto peer = core_.peer();
  if (!peer) return lines;
  auto theirs =
      why_not_asked.empty() ? peer->ask() : Outcome<CurrentRevision>(refuse(RefusalKind::not_current, why_not_asked));
  if (!theirs) {
    lines.why_not = trouble_with_partner(theirs.error());
    return lines;
  }
  auto configuration = from_document(theirs->document);
  if (!configuration) return std::unexpected(configuration.error());
  lines.verdict = compare_revisions(lines.here.state, theirs->state);
  lines.there = ConfigurationLine{engine::other(*side), theirs->state,
                                  std::make_shared<const Configuration>(std::move(*configuration))};
  lines.theirs = std::move(*theirs);
  return lines;
}

Outcome<std::string> ConfigurationOperator::force(const std::string& confirm) {
  if (auto good = check_in_pair_of_two(); !good) return std::unexpected(good.error());
  const auto configuration = core_.configuration();
  const NodeSide me = *core_.side();
  const std::string& mine = configuration->node(me)->name;
  const std::string& other = configuration->node(engine::other(me))->name;
  if (core_.revisions.conflict())
    return refuse(RefusalKind::conflict,
                  "The two nodes have parted already: one of the two configurations has to be given up. Run `lockstep "
                  "pair configuration give-up` on the node whose changes are to be dropped.");
  const auto there = core_.peer()->ask();
  if (there)
    return refuse(RefusalKind::conflict,
                  fmt::format("{} answers: nothing has to be forced. Make the change as usual.", other));
  if (there.error().kind != RefusalKind::not_current || there.error().other_certificate)
    return refuse(RefusalKind::conflict, fmt::format("{} {}. `lockstep health` tells what to do.", other,
                                                     trouble_with_partner(there.error())));
  // Whoever is let go on needs no force.
  const auto let = core_.change(
      "The node goes on alone", [](Configuration&) -> Outcome<void> { return {}; }, Agreement::one_is_let);
  if (let) return fmt::format("Nothing was forced: {} may go on alone, and does. Make the change as usual.", mine);
  if (let.error().kind != RefusalKind::not_current || let.error().perhaps_done) return std::unexpected(let.error());
  const std::string needed = fmt::format("{} without {}", mine, other);
  if (confirm != needed)
    return refuse(
        RefusalKind::confirmation_needed,
        fmt::format(
            "Nobody lets {0} go on: {1} If {2} runs all the same, and changes something or is forced, too, there "
            "are two configurations, which never merge: one has to be given up then, with all that was changed "
            "in it, and volumes that were made in it go out of service. If {2} or the arbiter can be brought "
            "back, do that instead. If {2} is lost for good, `lockstep node replace` or `lockstep pair leave` "
            "is what you want. Else send `{3}` as `confirm`.",
            mine, let.error().detail, other, needed),
        {{"/confirm", fmt::format("Must be {}.", needed)}});
  const auto forced = core_.revisions.force(me, "Forced by an operator");
  if (!forced) return std::unexpected(forced.error());
  const std::string done = fmt::format(
      "{} changes the configuration alone from now on, by an operator's word. {} takes it over when it is "
      "back, unless it has changed something itself.",
      mine, other);
  core_.events.append(
      {.kind = "configuration.forced", .severity = Severity::critical, .side = me, .volume = {}, .message = done});
  return done;
}

Outcome<std::vector<std::string>> ConfigurationOperator::give_up(const std::string& confirm) {
  if (auto good = check_in_pair_of_two(); !good) return std::unexpected(good.error());
  const auto seen = lines();
  if (!seen) return std::unexpected(seen.error());
  const auto& mine = *seen->here.configuration;
  const std::string& name = mine.node(seen->here.side)->name;
  const std::string& other = mine.node(engine::other(seen->here.side))->name;
  if (!seen->there)
    return refuse(
        RefusalKind::not_current,
        fmt::format("{} {}: nothing is given up before its configuration is known. Try again when it answers.", other,
                    seen->why_not));
  if (!seen->parted())
    return refuse(RefusalKind::conflict,
                  "The two configurations do not contradict one another: there is nothing to give up.");
  const auto& kept = *seen->there->configuration;
  const bool has_me =
      kept.pair && kept.pair->id == mine.pair->id && found(kept.nodes, &Node::id, core_.node_id) != nullptr;
  if (!has_me)
    return refuse(RefusalKind::conflict, fmt::format("{} has a configuration in which this node is not.", other));
  const auto lost = lost_with(mine, kept, seen->here.side, core_.local.volume_folder);
  if (confirm != name)
    return refuse(RefusalKind::confirmation_needed,
                  fmt::format("{} takes over {}'s configuration, and its own ends. {} Send `{}` as `confirm`.", name,
                              other, lost.empty() ? "They hold the same." : joined(lost), name),
                  {{"/confirm", fmt::format("Must be {}.", name)}});
  // What is given up stays readable, beside what takes its place.
  auto aside = core_.saved_file.path();
  aside += fmt::format(".given-up-{}-{}", seen->here.state.head.n, seen->here.state.head.change.to_string());
  if (auto kept_aside = core_.copy.set_aside(aside); !kept_aside)
    return refuse(kept_aside.error().kind, kept_aside.error().detail + " The configuration was not changed.");
  if (!core_.revisions.give_up(seen->here.state, seen->theirs)) {
    core_.save_copy();
    return refuse(RefusalKind::conflict, "Something was changed meanwhile. Look again, then try again.");
  }
  core_.events.append({.kind = "configuration.given_up",
                       .severity = Severity::warning,
                       .side = seen->here.side,
                       .volume = {},
                       .message = fmt::format("{} gave its configuration up for {}'s. {}", name, other, joined(lost))});
  return lost;
}

}  // namespace lockstep::mgmt
