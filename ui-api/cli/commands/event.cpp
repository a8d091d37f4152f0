// lockstep event list [--follow]
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/table.hpp"

namespace lockstep::cli {
namespace {

constexpr unsigned kReconnectMs = 2000;

struct EventOptions {
  unsigned limit = 50;
  std::uint64_t after = 0;
  bool follow = false;
};

std::string event_line(const json& event) {
  const std::string severity = text(event, "severity");
  const std::uint64_t count = number(event, "count");
  return fmt::format("{}  {:<8}  {:<4}  {}{}\n", short_time(part(event, "time")), severity,
                     or_dash(text(event, "side")), printable(text(event, "message")),
                     count > 1 ? fmt::format(" ({} times)", count) : "");
}

void print(Context& context, const json& event) {
  context.out << (context.json_output ? event.dump() + "\n" : event_line(event)) << std::flush;
}

/// For ever: a broken stream is taken up again where it broke.
Outcome<void> follow(Context& context, std::string last) {
  for (;;) {
    const auto ended = context.api.follow(last, [&](const StreamEvent& event) {
      if (event.name != "event") return true;
      last = event.id;
      print(context, event.data);
      return context.out.good();
    });
    if (!context.out.good()) return {};
    if (!ended && ended.error().exit != Exit::unreachable) return ended;
    context.err << "lockstep: the server closed the stream or cannot be reached; trying again.\n" << std::flush;
    context.sleep(kReconnectMs);
  }
}

Outcome<void> list_events(Context& context, const EventOptions& o) {
  std::string path = fmt::format("/events?limit={}", o.limit);
  if (o.after != 0) path += fmt::format("&after={}", o.after);
  const auto events = context.api.list(path);
  if (!events) return std::unexpected(events.error());
  if (context.json_output && !o.follow) {
    context.show(*events, {});
    return {};
  }
  for (const json& event : *events) print(context, event);
  if (!o.follow) {
    if (events->empty()) context.out << "No events.\n";
    return {};
  }
  return follow(context, std::to_string(events->empty() ? o.after : number(events->back(), "id")));
}

}  // namespace

void add_event_commands(CLI::App& app, Action& chosen) {
  auto* event = app.add_subcommand("event", "What happened");
  event->require_subcommand(1);
  auto o = std::make_shared<EventOptions>();
  auto* c = event->add_subcommand("list", "List events, oldest first");
  c->footer("Examples:\n  lockstep event list --limit 200\n  lockstep event list --follow");
  c->add_option("--limit", o->limit, "At most this many (default: 50)")->check(CLI::Range(1, 1000));
  c->add_option("--after", o->after, "Only those after the event with this id")->type_name("ID");
  c->add_flag("--follow,-f", o->follow, "Go on with new ones as they happen, until stopped");
  c->callback([o, &chosen] { chosen = [o](Context& context) { return list_events(context, *o); }; });
}

}  // namespace lockstep::cli
