//! Parts that all pictures have in common.

use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::client::Who;

const SIZE: (u32, u32) = (960, 440);
/// Width of the plot; the legend has the other part of the picture's width.
const PLOT: u32 = 760;
const FONT: &str = "sans-serif";

/// One line of a picture: its label, its colour, and its points.
pub struct Curve {
    pub label: String,
    pub colour: RGBColor,
    pub points: Vec<(f64, f64)>,
}

pub struct Axes<'a> {
    pub title: &'a str,
    pub x: &'a str,
    pub y: &'a str,
    /// Whether the y axis begins at zero and is linear.
    pub linear_y: bool,
    pub linear_x: bool,
    pub format_x: fn(f64) -> String,
    /// Points without lines between them, each larger than the one before.
    pub scattered: bool,
}

pub fn colour(who: Who) -> RGBColor {
    match who {
        Who::Ours => RGBColor(0, 90, 200),
        Who::Fenced => RGBColor(90, 170, 255),
        Who::Limit => RGBColor(40, 40, 40),
        Who::Rslock => RGBColor(214, 96, 20),
        Who::DistributedLockRedis => RGBColor(30, 150, 80),
        Who::Redlock => RGBColor(170, 60, 160),
        Who::Redsync | Who::GoRedsync => RGBColor(150, 130, 20),
    }
}

pub fn plain(value: f64) -> String {
    if value >= 1e6 {
        format!("{:.0} M", value / 1e6)
    } else if value >= 1e3 {
        format!("{:.0} k", value / 1e3)
    } else if value >= 1.0 {
        format!("{value:.0}")
    } else {
        format!("{value}")
    }
}

pub fn draw(path: &Path, axes: &Axes<'_>, curves: &[Curve]) -> Result<()> {
    if curves.iter().all(|curve| curve.points.is_empty()) {
        // Its scenario was not run, so the picture stays as it is.
        return Ok(());
    }
    let all = SVGBackend::new(path, SIZE).into_drawing_area();
    all.fill(&WHITE)?;
    let (area, beside) = all.split_horizontally(PLOT);
    legend(&beside, curves)?;
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let span = |of: fn(&(f64, f64)) -> f64| {
        points()
            .map(of)
            .fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)))
    };
    let ((left, right), (low, high)) = (span(|point| point.0), span(|point| point.1));
    let logarithmic = |low: f64, high: f64| (low * 0.8..high * 1.25).log_scale();
    // The four combinations are four types.
    match (axes.linear_x, axes.linear_y) {
        (true, true) => chart(&area, axes, curves, linear(left, right), linear(0.0, high))?,
        (true, false) => chart(&area, axes, curves, linear(left, right), logarithmic(low, high))?,
        (false, true) => chart(&area, axes, curves, logarithmic(left, right), linear(0.0, high))?,
        (false, false) => chart(
            &area,
            axes,
            curves,
            logarithmic(left, right),
            logarithmic(low, high),
        )?,
    }
    all.present().with_context(|| path.display().to_string())
}

fn legend(area: &DrawingArea<SVGBackend<'_>, Shift>, curves: &[Curve]) -> Result<()> {
    for (curve, y) in curves.iter().zip((56..).step_by(22)) {
        area.draw(&Rectangle::new([(4, y), (18, y + 8)], curve.colour.filled()))?;
        area.draw(&Text::new(curve.label.as_str(), (26, y - 3), (FONT, 13)))?;
    }
    Ok(())
}

fn linear(low: f64, high: f64) -> Range<f64> {
    low..low + (high - low) * 1.08
}

fn chart<X, Y>(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    axes: &Axes<'_>,
    curves: &[Curve],
    x: X,
    y: Y,
) -> Result<()>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .caption(axes.title, (FONT, 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .max_light_lines(0)
        .bold_line_style(RGBColor(215, 215, 215))
        .x_desc(axes.x)
        .y_desc(axes.y)
        .x_label_formatter(&|value| (axes.format_x)(*value))
        .y_label_formatter(&|value| plain(*value))
        .label_style((FONT, 13))
        .draw()?;
    for curve in curves {
        let colour = curve.colour;
        let radii = (0..).map(|number| if axes.scattered { 3 + 2 * number } else { 3 });
        let dots = curve.points.iter().zip(radii);
        let dots = dots.map(|(point, radius)| Circle::new(*point, radius, colour.filled()));
        if axes.scattered || curve.points.len() < 20 {
            chart.draw_series(dots)?;
        }
        let line = if axes.scattered { &[] } else { &curve.points[..] };
        chart.draw_series(LineSeries::new(line.iter().copied(), colour.stroke_width(2)))?;
    }
    Ok(())
}
