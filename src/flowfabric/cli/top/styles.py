"""The layout and the colours of `flowfabric top`."""

CSS = """
Screen { layers: base; }
#heading { height: auto; max-height: 3; padding: 0 1; background: $panel; }
#small { display: none; padding: 1; }
#strip { height: 5; }
#rates, #states { width: 1fr; height: 5; border: round $primary 60%; padding: 0 1; }
#body { height: 1fr; }
.row { height: 1fr; min-height: 5; }
#row-4 { height: 7; }
PanelTable { width: 1fr; height: 1fr; border: round $primary 60%; background: $background;
             scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; }
PanelTable, #rates, #states { border-title-color: $text; border-title-style: bold;
                              border-subtitle-color: $text-muted; }
PanelTable:focus { border: round $accent; }
PanelTable > .datatable--header { background: $background; color: $text-muted; }
PanelTable > .datatable--cursor { background: $background; color: $text;
                                  text-style: none; }
PanelTable:focus > .datatable--cursor { background: $primary 40%; }
#running, #lanes { width: 1fr; }
#filter { display: none; height: 3; }
.compact .row { display: none; height: 1fr; }
.compact .row.current { display: block; }
.compact .row PanelTable { display: none; }
.compact .row PanelTable.current { display: block; }
.tiny #body { display: none; }
.tiny #small { display: block; }
ConfirmScreen, HelpScreen { align: center middle; }
#dialog { width: 72; max-width: 95%; height: auto; max-height: 95%; border: round $accent;
          background: $surface; padding: 1 2; }
HelpScreen #dialog { width: 100; }
#dialog Label { margin-bottom: 0; }
VerticalScroll { padding: 0 1; }
"""
