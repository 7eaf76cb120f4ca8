//! The panels, three in a row, over one axis of time.

use std::path::Path;

use anyhow::{Context, Result};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::play::Event;

const COLUMNS: usize = 3;
const PANEL: (u32, u32) = (430, 250);
/// Curves of a panel.
const MOST: usize = 8;
const FONT: &str = "sans-serif";
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 90, 200),
    RGBColor(214, 96, 20),
    RGBColor(30, 150, 80),
    RGBColor(170, 60, 160),
    RGBColor(150, 130, 20),
    RGBColor(90, 170, 255),
    RGBColor(200, 40, 60),
    RGBColor(90, 90, 90),
];

#[derive(Debug)]
pub(crate) struct Curve {
    pub(crate) label: String,
    /// Seconds since the beginning, and the value.
    pub(crate) points: Vec<(f64, f64)>,
}

#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) curves: Vec<Curve>,
}

pub(crate) fn draw(path: &Path, charts: &[Chart], events: &[Event], begun: f64) -> Result<()> {
    let rows = charts.len().div_ceil(COLUMNS);
    let size = (PANEL.0 * u32::try_from(COLUMNS)?, PANEL.1 * u32::try_from(rows)?);
    let all = SVGBackend::new(path, size).into_drawing_area();
    all.fill(&WHITE)?;
    let marks: Vec<_> = events
        .iter()
        .map(|event| (event.at - begun, event.what.as_str()))
        .collect();
    for (area, chart) in all.split_evenly((rows, COLUMNS)).iter().zip(charts) {
        panel(area, chart, &marks)?;
    }
    all.present().with_context(|| path.display().to_string())
}

fn panel(area: &DrawingArea<SVGBackend<'_>, Shift>, chart: &Chart, marks: &[(f64, &str)]) -> Result<()> {
    let points = || chart.curves.iter().flat_map(|curve| &curve.points);
    let last = points().map(|point| point.0).fold(0.0, f64::max);
    let low = points().map(|point| point.1).fold(0.0, f64::min);
    let high = points().map(|point| point.1).fold(f64::MIN, f64::max);
    // A curve at zero still has an axis.
    let high = if high > low {
        high + (high - low) * 0.1
    } else {
        low + 1.0
    };
    let mut plot = ChartBuilder::on(area)
        .caption(&chart.title, (FONT, 14))
        .margin(8)
        .x_label_area_size(22)
        .y_label_area_size(46)
        .build_cartesian_2d(0.0..last, low..high)?;
    plot.configure_mesh()
        .max_light_lines(0)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_label_formatter(&|second| format!("{second:.0} s"))
        .y_label_formatter(&|value| number(*value))
        .label_style((FONT, 11))
        .draw()?;
    for (at, what) in marks {
        let line = [(*at, low), (*at, high)];
        plot.draw_series(LineSeries::new(line, RGBColor(200, 200, 200)))?;
        let text = (FONT, 9).into_font().transform(FontTransform::Rotate90);
        plot.draw_series([Text::new(
            (*what).to_owned(),
            (*at, high),
            text.color(&RGBColor(130, 130, 130)),
        )])?;
    }
    // Curves that stay at zero beside others, or are small beside many, would only fill the legend.
    let peak = |curve: &Curve| curve.points.iter().map(|point| point.1.abs()).fold(0.0, f64::max);
    let mut shown: Vec<&Curve> = chart.curves.iter().filter(|curve| peak(curve) > 0.0).collect();
    if shown.is_empty() {
        shown.extend(&chart.curves);
    }
    let mut peaks: Vec<f64> = shown.iter().map(|curve| peak(curve)).collect();
    peaks.sort_by(|one, other| other.total_cmp(one));
    let threshold = peaks.get(MOST - 1).copied().unwrap_or(0.0);
    shown.retain(|curve| peak(curve) >= threshold);
    for (curve, colour) in shown.into_iter().zip(COLOURS.iter().cycle()) {
        let line = LineSeries::new(curve.points.iter().copied(), colour.stroke_width(2));
        let key = move |(x, y)| PathElement::new([(x, y), (x + 12, y)], colour.stroke_width(2));
        plot.draw_series(line)?.label(curve.label.as_str()).legend(key);
    }
    plot.configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.7))
        .label_font((FONT, 10))
        .draw()?;
    Ok(())
}

fn number(value: f64) -> String {
    if value.abs() >= 1000.0 {
        format!("{:.1} k", value / 1000.0)
    } else if value == 0.0 || value.abs() >= 10.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned()
    }
}
