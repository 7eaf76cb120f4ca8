//! The growth of scripts, memory and waits, each over one size alone.

use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::row::Row;
use crate::setting::{Setting, Size};

const PANEL: (u32, u32) = (480, 300);
const FONT: &str = "sans-serif";
const COLOURS: [RGBColor; 3] = [
    RGBColor(0, 90, 200),
    RGBColor(214, 96, 20),
    RGBColor(120, 120, 120),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Figure = fn(&Row) -> f64;
type Error = Box<dyn std::error::Error>;

/// One panel: the rows that differ in one size alone.
struct Chart {
    title: &'static str,
    size: Size,
    /// Name and figure of each curve.
    curves: &'static [(&'static str, Figure)],
}

const WAITS: &[(&str, Figure)] = &[
    ("median", |row| ms(row.wait_p50_us)),
    ("99th percentile", |row| ms(row.wait_p99_us)),
    ("longest", |row| ms(row.wait_max_us)),
];

const CHARTS: [Chart; 4] = [
    Chart {
        title: "Scripts for each grant",
        size: Size::Clients,
        curves: &[("scripts", |row| float(row.scripts) / float(row.grants.max(1)))],
    },
    Chart {
        title: "Memory of all clients and masters, MiB",
        size: Size::Clients,
        curves: &[
            ("after connecting", |row| float(row.connected_kib) / 1024.0),
            ("at the end", |row| float(row.ended_kib) / 1024.0),
        ],
    },
    Chart {
        title: "Wait for a lock, ms",
        size: Size::Names,
        curves: WAITS,
    },
    Chart {
        title: "Wait for a lock, ms",
        size: Size::Distance,
        curves: WAITS,
    },
];

/// Draws the four panels, two in a row.
pub(crate) fn draw(path: &Path, rows: &[(&Setting, &Row)]) -> Result<(), Error> {
    let all = SVGBackend::new(path, (PANEL.0 * 2, PANEL.1 * 2)).into_drawing_area();
    all.fill(&WHITE)?;
    for (area, chart) in all.split_evenly((2, 2)).iter().zip(&CHARTS) {
        let sizes = rows.iter().map(|(setting, _)| f64::from(chart.size.of(setting)));
        let (left, right) = (sizes.clone().fold(f64::MAX, f64::min), sizes.fold(0.0, f64::max));
        let logarithmic = || (left * 0.8..right * 1.25).log_scale();
        match chart.size {
            Size::Clients => panel(area, chart, "clients", logarithmic(), rows)?,
            Size::Names => panel(area, chart, "names", logarithmic(), rows)?,
            Size::Distance => panel(area, chart, "distance, %", 0.0..right * 1.05, rows)?,
        }
    }
    all.present()?;
    Ok(())
}

fn panel<X>(area: &Area<'_>, chart: &Chart, x: &str, axis: X, rows: &[(&Setting, &Row)]) -> Result<(), Error>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let points = |figure: Figure| {
        let varied = rows
            .iter()
            .filter(|(setting, _)| chart.size.is_varied_by(setting));
        let mut points: Vec<(f64, f64)> = varied
            .map(|(setting, row)| (f64::from(chart.size.of(setting)), figure(row)))
            .collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points
    };
    let all = chart.curves.iter().flat_map(|(_, figure)| points(*figure));
    let high = all.map(|point| point.1).fold(0.0, f64::max);
    let mut plot = ChartBuilder::on(area)
        .caption(chart.title, (FONT, 15))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(52)
        .build_cartesian_2d(axis, 0.0..high * 1.15)?;
    plot.configure_mesh()
        .max_light_lines(0)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_desc(x)
        .x_label_formatter(&|size| format!("{size:.0}"))
        .y_label_formatter(&|value| format!("{value:.0}"))
        .label_style((FONT, 12))
        .draw()?;
    for ((name, figure), colour) in chart.curves.iter().zip(COLOURS) {
        let points = points(*figure);
        plot.draw_series(points.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
        plot.draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 12, y)], colour.stroke_width(2)));
    }
    // Where no curve is: waits grow to the left with fewer names, and everything else to the right.
    let corner = match chart.size {
        Size::Names => SeriesLabelPosition::UpperRight,
        Size::Clients | Size::Distance => SeriesLabelPosition::UpperLeft,
    };
    plot.configure_series_labels()
        .position(corner)
        .background_style(WHITE.mix(0.7))
        .label_font((FONT, 11))
        .draw()?;
    Ok(())
}

fn ms(us: u64) -> f64 {
    float(us) / 1000.0
}

/// Of a figure that fits: counts of an hour, and mebibytes.
fn float(figure: u64) -> f64 {
    f64::from(u32::try_from(figure).expect("below four thousand million"))
}
